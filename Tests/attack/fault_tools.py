"""What the faults have in common: a relay with a call, a small disk, and whether the call goes on."""
import asyncio
import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from relay import Relay, check
from wrtc_call import Watch, call_up


class Absent(Exception):
    """What the test needs is not on this machine."""


@contextlib.contextmanager
def small_disk(size="6m"):
    """A folder on a disk of its own (in this process's mount namespace)."""
    folder = tempfile.mkdtemp(prefix="media-relay-disk-")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=False)
        os.rmdir(folder)


def relay_at(data=None, **options):
    relay = Relay(**options)
    relay.data = data or relay.data
    return relay


async def up(relay):
    room = relay.create_room(kind="peer", media="video")
    return room, *(await call_up(relay, room))


async def goes_on(clients, seconds=1.5):
    """Both sides hear each other now, and see each other soon: a picture that stood still may wait for its next key frame."""
    before = [await client.totals() for client in clients]
    await asyncio.sleep(seconds)
    for client, then in zip(clients, before):
        now = await client.totals()
        check(now["audioPackets"] - then["audioPackets"] > 30 * seconds, f"{client.uid} hears nothing: {then} → {now}")
        await client.until(lambda totals: totals["framesDecoded"] > then["framesDecoded"] + 10, 8, "picture")


async def hang_up(relay, room, clients, outcome="ended"):
    await clients[0].leave()
    closed = relay.await_event("room.closed", room, 5)
    check(closed["data"]["outcome"] == outcome, f"the room ended as {closed['data']}")
    await asyncio.gather(*(client.close() for client in clients))


async def watched(clients, seconds, act=None):
    """The longest pause of sound while `act` runs (on a thread) and for `seconds` altogether."""
    watches = [Watch(client) for client in clients]
    started = time.monotonic()
    if act:
        await asyncio.to_thread(act)
    await asyncio.sleep(max(0, seconds - (time.monotonic() - started)))
    return max([await watch.stop() for watch in watches])


def kill_all(relay):
    """SIGKILL to control and its workers, and until they are gone."""
    relay.kill_control()
    for pid in relay.worker_pids():
        os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + 5
    while relay.worker_pids() and time.monotonic() < until:
        time.sleep(0.02)


def resident(pid):
    return next(int(line.split()[1]) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("RssAnon"))
