"""Faults of the disk and of what is on it: full, read-only, cut off, overwritten."""
import asyncio
import contextlib
import os
import pathlib
import random
import shutil
import subprocess
import threading

from fault_tools import goes_on, hang_up, kill_all, relay_at, small_disk, up, watched
from relay import BINARY, check, check_order


async def disk_full():
    """While the disk is full calls go on and nothing new is answered; when there is room again, everything that waited is stored and told."""
    with small_disk() as folder, relay_at(data=os.path.join(folder, "data")) as relay:
        room, *clients = await up(relay)
        filler = open(os.path.join(folder, "filler"), "wb", buffering=0)
        with contextlib.suppress(OSError):
            while True:
                filler.write(bytes(4096))
        answers = []

        def create():
            answers.append(relay.admin("POST", "/v1/rooms", {"kind": "peer", "media": "audio"}, timeout=60).status)

        waiting = [threading.Thread(target=create) for _ in range(20)]
        for thread in waiting:
            thread.start()
        gap = await watched(clients, 4)
        check(gap < 0.5, f"sound paused for {gap:.2f} s while the disk was full")
        stalled = 20 - len(answers)
        check(stalled > 0, "the disk was not full: everything was answered")
        os.ftruncate(filler.fileno(), 0)
        await asyncio.to_thread(lambda: [thread.join(20) for thread in waiting])
        check(answers == [201] * 20, f"afterwards the answers were {answers}")
        await goes_on(clients)
        await hang_up(relay, room, clients)
        check_order(relay.events())
        lines = pathlib.Path(relay.log_path).read_text().count("journal:")
        return f"{stalled} requests waited, longest pause of sound {gap * 1000:.0f} ms, {lines} lines in the log"


async def disk_read_only():
    """On a read-only data folder the relay does not start, and says which file it could not open."""
    with small_disk() as folder:
        os.mkdir(os.path.join(folder, "data"), 0o700)
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        done = subprocess.run(
            [BINARY, "serve", "--data", os.path.join(folder, "data"), "--http", "127.0.0.1:8080", "--media", "127.0.0.1:40000"],
            capture_output=True, text=True, timeout=20)
    check(done.returncode == 1, f"it ended with {done.returncode}: {done.stderr}")
    check("data" in done.stderr, f"it said: {done.stderr}")
    return done.stderr.strip()[-100:]


async def half_written_journal():
    """A write-ahead log that ends in the middle of a transaction, or in noise, costs what was not whole, and the log goes on from there."""
    draw = random.Random(5)
    with relay_at() as relay:
        for _ in range(30):
            relay.admin("DELETE", "/v1/rooms/" + relay.create_room(kind="peer", media="audio")).expect(200)
        told = relay.events()
        kill_all(relay)
        saved = relay.data + ".saved"
        shutil.copytree(relay.data, saved, ignore=shutil.ignore_patterns("*.sock"))
        size = os.path.getsize(os.path.join(saved, "journal.sqlite-wal"))
        lengths = []
        for cut in sorted(draw.randrange(size) for _ in range(5)):
            for noise in (False, True):
                shutil.rmtree(relay.data)
                shutil.copytree(saved, relay.data)
                os.chmod(relay.data, 0o700)
                path = os.path.join(relay.data, "journal.sqlite-wal")
                os.truncate(path, cut)
                if noise:
                    with open(path, "ab") as file:
                        file.write(draw.randbytes(9_000))
                relay.start()
                again = relay.events()
                kept = next((index for index, event in enumerate(again) if event["seq"] > len(told) or event != told[event["seq"] - 1]), len(again))
                check(again[:kept] == told[:kept], f"cut at {cut}: other events are there than were told")
                check_order(again)
                relay.admin("DELETE", "/v1/rooms/" + relay.create_room(kind="peer", media="audio")).expect(200)
                lengths.append(kept)
                kill_all(relay)
        shutil.rmtree(saved)
        relay.start()
    return f"of {len(told)} events {lengths} were left at ten cuts"


async def corrupt_journal():
    """A journal whose beginning is no database's is refused by its path, at the start; nothing is written over it."""
    with relay_at() as relay:
        relay.create_room(kind="peer", media="audio")
        relay.process.terminate()
        relay.process.wait(15)
        path = os.path.join(relay.data, "journal.sqlite")
        for name in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.remove(path + name)
        noise = random.Random(1).randbytes(os.path.getsize(path))
        pathlib.Path(path).write_bytes(noise)
        done = subprocess.run([BINARY, "serve", "--data", relay.data, "--http", "127.0.0.1:8080", "--media", "127.0.0.1:40000"],
                              capture_output=True, text=True, timeout=20)
        check(done.returncode == 1 and "journal.sqlite" in done.stderr, f"{done.returncode}: {done.stderr}")
        check(pathlib.Path(path).read_bytes() == noise, "the file was written over")
        os.remove(path)
        relay.start()
    return done.stderr.strip()[-110:]
