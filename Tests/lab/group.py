#!/usr/bin/env python3
"""A room of eight: six of our own load clients and two Chromiums, all of whom hear and see each other over slots, and what the worker
uses of a processor there against what forwarding alone predicts. The load program (bench/RelayLoad, `guests`) owns relay, load and
measurement; this brings the browsers.

`start` runs it in namespaces of its own, as measure.py does with a call.
"""
import asyncio
import http.client
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]

from relay import BINARY, check  # noqa: E402
from run import isolation  # noqa: E402

LOAD = BINARY.parent / "RelayLoad"
SIZE, GUESTS = 8, 2
# What a load client's picture is: 150 packets of 1,150 bytes a second.
PICTURE = 1_380_000
SECONDS = 300  # within which all of it is done


def join(invitation, bearer, offer):
    """The answer to a session that joins at once."""
    connection = http.client.HTTPConnection("127.0.0.1", invitation["http"], timeout=30)
    connection.request("POST", f"/v1/rooms/{invitation['room']}/sessions?state=joined", offer, {
        "Authorization": f"Bearer {bearer}", "Content-Type": "application/sdp"})
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    check(response.status == 201, f"a browser's session answered {response.status}: {body[:300]}")
    return body


async def seat(invitation, peers):
    """Both browsers join; returns when each decodes the picture of all others, and hears them."""
    for peer, bearer in zip(peers, invitation["tokens"]):
        offer = await peer.offer(False, SIZE - 2, PICTURE)
        await peer.accept(await asyncio.to_thread(join, invitation, bearer, offer))
    await asyncio.gather(*(peer.connected() for peer in peers))
    end = time.monotonic() + 40
    while True:
        seen = [await peer.slots() for peer in peers]
        if all(shown(slots) == (SIZE - 1, SIZE - 1) for slots in seen):
            # So that both have found their rate.
            return await asyncio.sleep(5)
        check(time.monotonic() < end, f"the browsers see and hear (pictures, sounds) {[shown(slots) for slots in seen]} of {SIZE - 1}")
        await asyncio.sleep(0.25)


def shown(slots):
    """How many pictures and sounds come."""
    return (sum(slot["kind"] == "video" and slot["frames"] > 10 for slot in slots),
            sum(slot["kind"] == "audio" and slot["packets"] > 20 for slot in slots))


async def run():
    from chromium import Window

    load = await asyncio.create_subprocess_exec(
        str(LOAD), "guests", "--json", "--relay", str(BINARY), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    window, found, figure = None, {}, None
    try:
        while line := await load.stdout.readline():
            if not line.startswith(b"{"):
                continue
            said = json.loads(line)
            if "invitation" in said:
                window = Window(["first", "second"])
                await seat(said["invitation"], window.peers)
                begun = [await peer.slots() for peer in window.peers]
                load.stdin.write(b"\n")
                await load.stdin.drain()
            elif said["metric"] == "guests_cpu_to_predicted":
                figure = said
                ended = [await peer.slots() for peer in window.peers]
                found = grown(begun, ended)
        await load.wait()
    finally:
        if load.returncode is None:
            load.terminate()
            await load.wait()
        if window:
            window.stop()
    check(load.returncode == 0 and figure, f"the load program ended with {load.returncode}")
    return {"ratio": round(figure["value"], 3), **figure["context"], **found}


def grown(begun, ended):
    """Over the whole measurement, in which the six pause for the windows of the limit: the least decoded in any slot, what was lost."""
    changes = [
        {"kind": b["kind"], **{name: b[name] - a[name] for name in ("packets", "frames", "lost", "concealed", "samples")}}
        for before, after in zip(begun, ended) for a, b in zip(before, after)]
    packets = sum(change["packets"] for change in changes)
    return {
        "leastFrames": min(change["frames"] for change in changes if change["kind"] == "video"),
        "lostPercent": round(100 * sum(change["lost"] for change in changes) / max(1, packets), 3)}


def inside():
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    print("\nresult: " + json.dumps(asyncio.run(run())), flush=True)
    os._exit(0)


def measure():
    """The figures of one run."""
    check(LOAD.exists(), f"{LOAD} is missing: swift build -c release --product RelayLoad")
    process = subprocess.run(
        [*isolation(), sys.executable, __file__], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=SECONDS)
    for line in reversed(process.stdout.splitlines()):
        if line.startswith("result: "):
            return json.loads(line[8:])
    raise AssertionError(f"the room of eight gave no result: {process.stdout[-3000:]}")


if __name__ == "__main__":
    inside()
