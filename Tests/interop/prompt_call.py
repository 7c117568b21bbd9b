"""Prompts by ear: what real clients decode of tones and files that the server plays, told apart by frequency."""
import array
import asyncio
import math
import os
import tempfile
import time

import av
import webrtc

from relay import Relay, check, participant
from wrtc_client import WrtcClient

# What each sends and what is played, in hertz; whole periods in 100 ms.
ALICE, BOB, RINGBACK, RECORDING, FILE = 700, 1000, 425, 1400, 600
WINDOW = 4800


def strength(samples, rate, frequency):
    """The amplitude of one frequency, of 32,768 (Goertzel)."""
    factor = 2 * math.cos(2 * math.pi * frequency / rate)
    one = two = 0.0
    for sample in samples:
        one, two = sample + factor * one - two, one
    return 2 * math.sqrt(max(0.0, one * one + two * two - factor * one * two)) / len(samples)


class Listener(WrtcClient):
    """Sends one tone, and says of each tenth of a second which of the tones above it heard."""

    def __init__(self, *arguments, frequency, **options):
        super().__init__(*arguments, **options)
        self.frequency, self.heard = frequency, []

    def tone(self):
        samples = [int(9000 * math.sin(2 * math.pi * self.frequency * index / 48000)) for index in range(4800)]
        return [array.array("h", samples[block * 480:(block + 1) * 480]).tobytes() for block in range(10)]

    async def prepare(self, state="prepared"):
        await super().prepare(state)
        track = next(one.receiver.track for one in self.pc.get_transceivers() if str(one.receiver.track.kind) == "audio")
        self.tasks.append(asyncio.create_task(self.listen(track)))

    async def listen(self, track):
        processor = webrtc.MediaStreamTrackProcessor(webrtc.MediaStreamTrackProcessorInit(track, max_buffer_size=500))
        samples = array.array("h")
        async for data in processor.readable:
            with data:
                block = bytearray(data.allocation_size(webrtc.AudioDataCopyToOptions(plane_index=0)))
                data.copy_to(block, webrtc.AudioDataCopyToOptions(plane_index=0))
                rate, channels = data.sample_rate, data.number_of_channels
            samples.extend(array.array("h", bytes(block))[::channels])
            length = WINDOW * int(rate) // 48000
            while len(samples) >= length:
                window, samples = samples[:length], samples[length:]
                self.heard.append((time.monotonic(), {
                    tone for tone in (ALICE, BOB, RINGBACK, RECORDING, FILE)
                    if strength(window, rate, tone) > 1000}))

    async def hears(self, tone, seconds=3):
        """Waits until it is heard, and nothing else; returns the seconds that it took."""
        asked = time.monotonic()
        while True:
            if any(at > asked and tones == {tone} for at, tones in self.heard):
                return time.monotonic() - asked
            check(
                time.monotonic() - asked < seconds,
                f"{self.uid} heard {[tones for at, tones in self.heard if at > asked]}, not {tone} Hz")
            await asyncio.sleep(0.02)

    def heard_since(self, moment):
        return set().union(*(tones for at, tones in self.heard if at > moment), set())


def write_file(path):
    """Two seconds of a tone as ffmpeg writes it."""
    with av.open(path, "w", format="ogg") as container:
        stream = container.add_stream("libopus", rate=48000, layout="mono")
        for start in range(0, 96000, 960):
            frame = av.AudioFrame(format="s16", layout="mono", samples=960)
            frame.sample_rate, frame.pts = 48000, start
            frame.planes[0].update(array.array("h", [
                int(9000 * math.sin(2 * math.pi * FILE * index / 48000)) for index in range(start, start + 960)]).tobytes())
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


async def prompts(relay):
    room = relay.create_room(kind="peer", media="video", ring={"caller": "alice", "callees": ["bob"]})
    alice = Listener(relay, room, "alice", participant(room, "alice"), frequency=ALICE)
    bob = Listener(relay, room, "bob", participant(room, "bob"), frequency=BOB)
    await alice.prepare("prepared&join=on-answer")
    await bob.prepare()

    async def ask(method, path, body=None):
        return await asyncio.to_thread(relay.admin, method, path, body)

    async def play(**body):
        return (await ask("POST", f"/v1/rooms/{room}/prompts", body)).expect(201)

    # The caller waits and hears its ringback; the callee, prepared too, hears nothing.
    await play(tone="ringback", to=["alice"], loop=True)
    first = await alice.hears(RINGBACK)
    await asyncio.sleep(0.5)
    totals = await bob.totals()
    check(totals["audioPackets"] == 0, f"bob was not meant: {totals}")
    totals = await alice.totals()
    check(totals["videoPackets"] == 0 and alice.heard_since(0) == {RINGBACK}, f"alice heard {alice.heard_since(0)}")
    # The answer ends it.
    await bob.join()
    waits = [await alice.hears(BOB), await bob.hears(ALICE)]
    relay.await_event("prompt.ended", room, 2, reason="answered")
    check(RINGBACK not in bob.heard_since(0), "bob heard the ringback")
    # A beep to both, and each other again behind it.
    await play(tone="recording")
    await asyncio.gather(alice.hears(RECORDING), bob.hears(RECORDING))
    relay.await_event("prompt.ended", room, 3, reason="finished")
    await asyncio.gather(alice.hears(BOB), bob.hears(ALICE))
    # A file to one, in a loop, until it is stopped; the other one goes on.
    started = time.monotonic()
    location = (await play(file="music", to=["bob"], loop=True)).headers["Location"]
    await bob.hears(FILE)
    view = relay.room(room)
    check([prompt["file"] for prompt in view["prompts"]] == ["music"], f"the room shows {view.get('prompts')}")
    await asyncio.sleep(3)
    check({tone for _, tones in bob.heard[-20:] for tone in tones} == {FILE}, f"bob heard {bob.heard[-20:]}")
    (await ask("DELETE", location)).expect(200)
    (await ask("DELETE", location)).expect(200)
    relay.await_event("prompt.ended", room, 2, reason="stopped")
    await bob.hears(ALICE)
    check(alice.heard_since(started) == {BOB}, f"alice heard {alice.heard_since(started)} meanwhile")
    notes = []
    for client in (alice, bob):
        totals = await client.totals()
        check(totals["lost"] == 0, f"{client.uid} thinks that something was lost: {totals}")
        notes.append(f"{client.uid} {totals['audioConcealed'] * 100 / max(1, totals['audioSamples']):.1f} %")
    unknown = (await ask("POST", f"/v1/rooms/{room}/prompts", {"file": "none"})).expect(422).json
    check(unknown["code"] == "unknown-sound" and "music" in unknown["detail"], f"an unknown file is {unknown}")
    await alice.leave()
    await asyncio.gather(alice.close(), bob.close())
    return (
        f"ringback after {first * 1000:.0f} ms, the other side {max(waits) * 1000:.0f} ms after the answer; "
        f"concealed: {', '.join(notes)}")


def prompts_by_ear():
    with tempfile.TemporaryDirectory() as folder:
        write_file(os.path.join(folder, "music.opus"))
        with Relay(options=["--prompts", folder]) as relay:
            return asyncio.run(prompts(relay))
