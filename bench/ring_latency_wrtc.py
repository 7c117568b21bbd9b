"""The wrtc (libwebrtc) half of ring_latency.py: both sides in one process, the same delays, the same moments."""
import array
import asyncio
import http.client
import pathlib
import sys
import time

import webrtc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "Tests/interop"))

from relay import Answer, check  # noqa: E402
from wrtc_client import WrtcClient  # noqa: E402


class WarmRelay:
    """The API over one connection that stays open, as a client's would be."""

    def __init__(self, address):
        self.connection = http.client.HTTPConnection(*address, timeout=20)
        self.connection.request("GET", "/healthz")
        Answer(self.connection.getresponse()).expect(200)

    def ask(self, method, path, body, bearer, headers=None):
        self.connection.request(method, path, body, {"Authorization": f"Bearer {bearer}", **(headers or {})})
        return Answer(self.connection.getresponse())

    def prepare(self, room, bearer, sdp, state):
        answer = self.ask(
            "POST", f"/v1/rooms/{room}/sessions?state={state}", sdp, bearer, {"Content-Type": "application/sdp"})
        return answer.expect(201).headers["Location"], answer.body.decode()


async def watch(client, found, side):
    """When the first block with signal and the first picture come out of a client's tracks."""
    while not getattr(client, "senders", None):
        await asyncio.sleep(0.001)
    await asyncio.gather(*(first(one.receiver.track, found, side) for one in client.pc.get_transceivers()))


async def first(track, found, side):
    reader = webrtc.MediaStreamTrackProcessor(webrtc.MediaStreamTrackProcessorInit(track=track)).readable.get_reader()
    while True:
        one = (await reader.read()).value
        is_there = str(track.kind) == "video" or is_loud(one)
        one.close()
        if is_there:
            found[f"{side} {'sees' if str(track.kind) == 'video' else 'hears'}"] = time.monotonic()
            return


def is_loud(block):
    options = webrtc.AudioDataCopyToOptions(plane_index=0, format="s16")
    samples = bytearray(block.allocation_size(options))
    block.copy_to(samples, options)
    return max(map(abs, array.array("h", samples)), default=0) > 600


async def ring(address, room, caller, callee, mode):
    """Milliseconds from the answer, by side."""
    found, clients, watchers = {}, [], []
    for uid, token in (("alice", caller), ("bob", callee)):
        clients.append(WrtcClient(WarmRelay(address), room, uid, token, warm=uid == "alice" or mode == "cold"))
        watchers.append(asyncio.create_task(watch(clients[-1], found, "caller" if uid == "alice" else "callee")))
    first_one, second = clients
    try:
        await first_one.prepare("prepared&join=on-answer" + ("&earlyKeyFrame=1" if mode == "early" else ""))
        if mode != "cold":
            await second.prepare()
        await asyncio.sleep(1.5)
        answered = time.monotonic()
        await (second.prepare("joined") if mode == "cold" else second.join())
        await asyncio.wait_for(asyncio.gather(*watchers), 8)
        check(len(found) == 4, f"only {list(found)}")
        return {name: (moment - answered) * 1000 for name, moment in found.items()}
    finally:
        for task in watchers:
            task.cancel()
        await second.leave()
        for client in clients:
            await client.close()
