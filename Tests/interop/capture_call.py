"""A capture of a running call: Wireshark's own tools read the file, and nothing in it is more than a header."""
import asyncio
import json
import os
import subprocess
import tempfile
import time

from command_line import FAILED, NOT_FOUND, USAGE, Shell
from network_change import pair
from relay import KEY_ID, SECRET, Relay, check, participant

PORT = 40000


def tshark(path, *arguments):
    # Which port is media is not written in a file: Wireshark is told to guess RTP, as docs/operations.md says.
    command = ["tshark", "-n", "-r", path, "--enable-heuristic", "rtp_udp", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, "HOME": "/nonexistent"})
    check(done.returncode == 0, f"tshark says {done.stderr[-500:]}")
    return done.stdout


async def capture_call_async(relay, shell, folder):
    room, clients = await pair(relay)
    path = os.path.join(folder, "call.pcapng")
    # The worker's first counters.
    await asyncio.sleep(2.5)
    before = dict(zip(("received", "sent"), counters(relay)))
    began = time.monotonic()
    said = await asyncio.to_thread(shell.run, "capture", room, "--out", path, "--seconds", "4")
    took = time.monotonic() - began
    check(4 <= took < 7 and said.startswith(path), f"the command took {took:.1f} s and said {said}")
    after = dict(zip(("received", "sent"), counters(relay)))
    rows = [json.loads(line)["layers"] for line in tshark(path, "-T", "ek").splitlines() if '"layers"' in line]
    kinds = [row["frame"]["frame_frame_protocols"] for row in rows]
    rtp, stun = [sum(name in kind for kind in kinds) for name in (":rtp", ":stun")]
    check(rtp > 400 and stun >= 4, f"{len(rows)} packets: {rtp} RTP, {stun} STUN")
    into = sum(int(row["udp"]["udp_udp_dstport"]) == PORT for row in rows)
    # Counters are told every 2 s: they cover the capture and up to 4 s around it.
    received = after["received"] - before["received"]
    check(0.4 * received < into <= 1.6 * received, f"{into} came in; the worker counted {received}")
    for row in rows:
        kept, whole = int(row["frame"]["frame_frame_cap_len"]), int(row["frame"]["frame_frame_len"])
        check(kept <= 28 + 12 + 60 or ":stun" in row["frame"]["frame_frame_protocols"], f"{kept} of {whole} bytes are kept: {row}")
    # The streams as Wireshark sees them: four of sound and picture each way, in order and without holes at the relay.
    streams = tshark(path, "-q", "-z", "rtp,streams")
    check(streams.count("0x") >= 4, f"the streams are\n{streams}")
    facts = subprocess.run(["capinfos", "-M", path], capture_output=True, text=True, timeout=30)
    check(facts.returncode == 0 and "pcapng" in facts.stdout, f"capinfos says {facts.stdout}{facts.stderr}")
    # Bounded by size, one at a time, and only for who may.
    small = os.path.join(folder, "small.pcapng")
    first = asyncio.create_task(asyncio.to_thread(shell.run, "capture", room, "--out", path, "--seconds", "3"))
    await asyncio.sleep(1)
    await asyncio.to_thread(shell.run, "capture", room, "--out", small, "--seconds", "5", code=FAILED)
    check(not os.path.exists(small), "two captures run on one worker")
    await first
    began = time.monotonic()
    await asyncio.to_thread(shell.run, "capture", room, "--out", small, "--seconds", "60", "--kibibytes", "16")
    check(8 << 10 < os.path.getsize(small) <= 16 << 10 and time.monotonic() - began < 10, f"{os.path.getsize(small)} bytes")
    tshark(small, "-q")
    relay.ask("POST", f"/v1/rooms/{room}/capture", {}, participant(room, "alice")).expect(403)
    for wrong in ({"seconds": 0}, {"seconds": 301}, {"kibibytes": 1}, {"port": 1}):
        relay.admin("POST", f"/v1/rooms/{room}/capture", wrong).expect(400)
    # It ends with the call, and with its reader.
    last = asyncio.create_task(asyncio.to_thread(shell.run, "capture", room, "--out", path, "--seconds", "30"))
    await asyncio.sleep(1)
    for client in clients:
        await client.leave()
    await asyncio.wait_for(last, 5)
    return len(rows), rtp, stun


def counters(relay):
    text = relay.admin("GET", "/metrics").expect(200).body.decode()
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return [float(found[f'media_relay_worker_datagrams_{way}_total{{worker="0"}}']) for way in ("received", "sent")]


def capture_call():
    folder = tempfile.mkdtemp(prefix="capture-")
    with Relay() as relay:
        secret = os.path.join(folder, "secret")
        with open(secret, "w", encoding="utf-8") as file:
            file.write(SECRET)
        shell = Shell(MEDIA_RELAY_URL=f"http://{relay.http}", MEDIA_RELAY_KEY=f"{KEY_ID}:@{secret}")
        out = ("--out", os.path.join(folder, "none.pcapng"))
        shell.run("capture", "nobody", *out, code=NOT_FOUND)
        relay.create_room(id="empty", kind="peer", media="audio")
        shell.run("capture", "empty", *out, code=FAILED)
        check(not os.path.exists(out[1]), "a refused capture leaves a file")
        shell.run("capture", "empty", code=USAGE)
        shell.run("capture", "empty", *out, "--seconds", "0", code=USAGE)
        found = asyncio.run(capture_call_async(relay, shell, folder))
        log = open(relay.log_path, encoding="utf-8").read()
        check(log.count("a capture of headers begins") == 4 and 'reason="room-empty"' in log, "the log does not say that captures ran")
    return "{} packets read by tshark: {} RTP, {} STUN; headers only, bounded, logged".format(*found)
