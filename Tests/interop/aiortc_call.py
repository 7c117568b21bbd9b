"""A call between two aiortc clients: an independent implementation (its own ICE, DTLS by another OpenSSL, SRTP, RTP)."""
import array
import asyncio
import fractions
import time

import aiortc
import av

from relay import Relay, check, check_end, check_order, participant

TALK = 4.0


class Tone(aiortc.AudioStreamTrack):
    """A square wave of 400 Hz, so that silence is told from sound."""

    async def recv(self):
        frame = await super().recv()
        samples = frame.samples
        wave = b"".join((b"\x00\x18" if (index // 10) % 2 else b"\x00\xe8") for index in range(samples))
        frame.planes[0].update(wave)
        return frame


class Picture(aiortc.VideoStreamTrack):
    """Twenty 320 × 240 pictures a second, each a different grey."""

    def __init__(self):
        super().__init__()
        self.started, self.index = None, 0

    async def recv(self):
        if self.started is None:
            self.started = time.monotonic()
        self.index += 1
        await asyncio.sleep(max(0, self.started + self.index / 20 - time.monotonic()))
        frame = av.VideoFrame(320, 240, "yuv420p")
        for plane, grey in zip(frame.planes, ((self.index * 7) % 200 + 20, 128, 128)):
            plane.update(bytes([grey]) * plane.buffer_size)
        frame.pts = int((time.monotonic() - self.started) * 90000)
        frame.time_base = fractions.Fraction(1, 90000)
        return frame


class Client:
    def __init__(self, relay, room, uid):
        self.relay, self.room, self.uid = relay, room, uid
        self.bearer = participant(room, uid)
        self.frames = {"audio": 0, "video": 0}
        self.loud = 0
        self.tasks = []

    async def prepare(self):
        # Without this configuration aiortc asks a public STUN server first.
        self.pc = aiortc.RTCPeerConnection(aiortc.RTCConfiguration(iceServers=[]))
        self.pc.addTrack(Tone())
        self.pc.addTrack(Picture())
        connected = asyncio.Event()

        @self.pc.on("connectionstatechange")
        def changed():
            if self.pc.connectionState == "connected":
                connected.set()

        @self.pc.on("track")
        def came(track):
            self.tasks.append(asyncio.create_task(self.consume(track)))

        await self.pc.setLocalDescription(await self.pc.createOffer())
        posted = time.monotonic()
        self.location, answer = await asyncio.to_thread(
            self.relay.prepare, self.room, self.bearer, self.pc.localDescription.sdp)
        await self.pc.setRemoteDescription(aiortc.RTCSessionDescription(answer, "answer"))
        try:
            await asyncio.wait_for(connected.wait(), 10)
        except asyncio.TimeoutError:
            raise AssertionError(f"{self.uid} is {self.pc.connectionState} 10 s after its POST") from None
        self.connect_seconds = time.monotonic() - posted

    async def consume(self, track):
        while True:
            try:
                frame = await track.recv()
            except aiortc.mediastreams.MediaStreamError:
                return
            self.frames[track.kind] += 1
            if track.kind == "audio" and max(array.array("h", bytes(frame.planes[0])[:1920]), default=0) > 1000:
                self.loud += 1

    async def lost(self):
        report = await self.pc.getStats()
        return sum(item.packetsLost for item in report.values() if item.type == "inbound-rtp")

    async def ask(self, method, path):
        return (await asyncio.to_thread(self.relay.ask, method, path, None, self.bearer)).expect(200)

    async def close(self):
        await self.pc.close()
        for task in self.tasks:
            task.cancel()


async def call(relay):
    room = relay.create_room(kind="peer", media="video")
    alice, bob = Client(relay, room, "alice"), Client(relay, room, "bob")
    await asyncio.gather(alice.prepare(), bob.prepare())
    for client in (alice, bob):
        check(client.connect_seconds < 1, f"{client.uid} connected {client.connect_seconds:.2f} s after its POST")
        relay.await_event("participant.prepared", room, 2, uid=client.uid)
    await asyncio.sleep(0.7)
    await alice.ask("POST", alice.location + "/join")
    await asyncio.sleep(0.7)
    for client in (alice, bob):
        check(client.frames == {"audio": 0, "video": 0}, f"{client.uid} received {client.frames} through the closed gate")
    await bob.ask("POST", bob.location + "/join")
    await asyncio.sleep(TALK)
    for client in (alice, bob):
        check(client.frames["video"] > TALK * 20 * 0.6, f"{client.uid} decoded {client.frames}")
        check(client.frames["audio"] > TALK * 50 * 0.7, f"{client.uid} decoded {client.frames}")
        check(client.loud > client.frames["audio"] / 2, f"{client.uid} heard silence: {client.loud} of {client.frames}")
        lost = await client.lost()
        check(lost == 0, f"{client.uid} lost {lost} packets")
    await alice.ask("DELETE", alice.location)
    relay.await_event("room.closed", room, 2)
    check_order(relay.events())
    check_end(relay.events(room=room), "alice", "bob")
    await asyncio.gather(alice.close(), bob.close())
    return f"{max(alice.connect_seconds, bob.connect_seconds) * 1000:.0f} ms to connect; {alice.frames}, {bob.frames}"


def aiortc_call():
    # aiortc never uses loopback addresses: HTTP is on loopback, media on the namespace's own address.
    with Relay(media="10.99.0.1:40000") as relay:
        return asyncio.run(call(relay))


async def mixed_call(relay, address):
    from wrtc_client import WrtcClient

    room = relay.create_room(kind="peer", media="video")
    alice, bob = Client(relay, room, "alice"), WrtcClient(relay, room, "bob", participant(room, "bob"))
    await asyncio.gather(alice.prepare(), bob.prepare())
    for client in (alice, bob):
        relay.await_event("participant.prepared", room, 2, uid=client.uid)
    for sdp in (alice.pc.remoteDescription.sdp, bob.pc.remote_description.sdp):
        named = {line.split()[4] for line in sdp.splitlines() if line.startswith("a=candidate:")}
        check(named == {address}, f"an answer names {named}, the relay listens on {address} alone")
    await alice.ask("POST", alice.location + "/join")
    await bob.join()
    await asyncio.sleep(TALK)
    totals = await bob.totals()
    for frames, what in ((alice.frames["video"], "aiortc"), (totals["framesDecoded"], "wrtc")):
        check(frames > TALK * 20 * 0.6, f"{what} decoded {frames} frames; {totals}, {alice.frames}")
    check(alice.loud > TALK * 50 * 0.6, f"aiortc heard {alice.loud} loud frames of {alice.frames}")
    check(totals["audioEnergy"] > 0.01, f"wrtc heard silence: {totals}")
    check(totals["lost"] == 0 and await alice.lost() == 0, f"packets were lost: {totals}, {await alice.lost()}")
    await bob.leave()
    relay.await_event("room.closed", room, 2)
    check_order(relay.events())
    check_end(relay.events(room=room), "bob", "alice")
    await asyncio.gather(alice.close(), bob.close())
    return f"aiortc {alice.frames}; wrtc {totals['framesDecoded']} frames"


def aiortc_wrtc():
    """Different payload types and extension ids on both sides (Opus is 96 here and 111 there), different SRTP profiles."""
    with Relay(media="10.99.0.1:40000") as relay:
        return asyncio.run(mixed_call(relay, "10.99.0.1"))


def ipv6_call():
    """Media over IPv6 alone: the relay listens on no IPv4 address, and its answers name none."""
    with Relay(media="[fd00::1]:40000") as relay:
        return asyncio.run(mixed_call(relay, "fd00::1"))
