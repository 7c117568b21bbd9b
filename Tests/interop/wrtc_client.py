"""One wrtc (libwebrtc) client of the relay: sends a tone and a moving picture, counts what it decodes.

`webrtc` is imported with loopback candidates allowed; field trials come from the environment (WRTC_FIELD_TRIALS).
"""
import array
import asyncio
import math
import time

import webrtc

from relay import check

webrtc.allow_loopback()

WIDTH, HEIGHT, RATE = 320, 240, 20


def tone():
    """10 ms of 440 Hz and its follow-ups: a whole number of periods is 100 ms, so ten blocks go round."""
    samples = [int(9000 * math.sin(2 * math.pi * 440 * index / 48000)) for index in range(4800)]
    return [array.array("h", samples[block * 480:(block + 1) * 480]).tobytes() for block in range(10)]


def pictures():
    """A bar that moves over a gradient: changes enough that every frame costs packets."""
    found = []
    chroma = bytes([110]) * (WIDTH // 2 * HEIGHT // 2) + bytes([150]) * (WIDTH // 2 * HEIGHT // 2)
    for step in range(RATE):
        start = step * WIDTH // RATE
        row = bytes(235 if start <= x < start + 40 else 40 + x * 100 // WIDTH for x in range(WIDTH))
        found.append(row * HEIGHT + chroma)
    return found


class WrtcClient:
    """`warm`: sends from the start, against the closed gate; else the tracks are null until `join`."""

    # What it sends: `rate` pictures of this size a second, one second's worth of them made by `pictures`.
    width, height, rate = WIDTH, HEIGHT, RATE
    pictures = staticmethod(pictures)
    # What its tone is: ten blocks of 10 ms.
    tone = staticmethod(tone)
    # How many more m-lines of a kind only receive, in a group.
    slots = {}

    def __init__(self, relay, room, uid, bearer, warm=True, proxy=None):
        self.relay, self.room, self.uid, self.bearer = relay, room, uid, bearer
        self.warm, self.proxy = warm, proxy
        self.location = None
        self.connect_seconds = None
        self.tasks = []

    async def prepare(self, state="prepared"):
        self.pc = webrtc.RTCPeerConnection(webrtc.RTCConfiguration(ice_servers=[]))
        self.audio = webrtc.MediaStreamTrackGenerator("audio")
        self.video = webrtc.MediaStreamTrackGenerator("video")
        init = webrtc.RTCRtpTransceiverInit(direction="sendrecv")
        self.senders = {
            "audio": self.pc.add_transceiver(self.audio if self.warm else "audio", init).sender,
            "video": self.pc.add_transceiver(self.video if self.warm else "video", init).sender,
        }
        for kind, count in self.slots.items():
            for _ in range(count):
                self.pc.add_transceiver(kind, webrtc.RTCRtpTransceiverInit(direction="recvonly"))
        connected = asyncio.Event()
        self.pc.on("connectionstatechange", lambda _event: (
            connected.set() if self.pc.connection_state == "connected" else None))
        self.tasks = [asyncio.create_task(self.play_tone()), asyncio.create_task(self.play_pictures())]
        await self.pc.set_local_description()
        posted = time.monotonic()
        self.location, answer = await asyncio.to_thread(
            self.relay.prepare, self.room, self.bearer, self.offered(self.pc.local_description.sdp), state)
        if self.proxy:
            answer = self.proxy.rewritten(answer)
        await self.pc.set_remote_description(webrtc.RTCSessionDescriptionInit(type="answer", sdp=answer))
        try:
            await asyncio.wait_for(connected.wait(), 10)
        except asyncio.TimeoutError:
            raise AssertionError(f"{self.uid} is {self.pc.connection_state} 10 s after its POST") from None
        self.connect_seconds = time.monotonic() - posted

    def offered(self, sdp):
        """What of its description the client offers."""
        return sdp

    async def play_tone(self):
        writer = self.audio.writable.get_writer()
        blocks, index, started = self.tone(), 0, time.monotonic()
        while True:
            await writer.write(webrtc.AudioData(webrtc.AudioDataInit(
                format="s16", sample_rate=48000, number_of_frames=480, number_of_channels=1,
                timestamp=index * 10_000, data=blocks[index % 10])))
            index += 1
            await asyncio.sleep(max(0, started + index * 0.01 - time.monotonic()))

    async def play_pictures(self):
        writer = self.video.writable.get_writer()
        frames, index, started = self.pictures(), 0, time.monotonic()
        while True:
            stamp = int((time.monotonic() - started) * 1_000_000)
            await writer.write(webrtc.VideoFrame(frames[index % self.rate], webrtc.VideoFrameBufferInit(
                format="I420", coded_width=self.width, coded_height=self.height, timestamp=stamp)))
            index += 1
            await asyncio.sleep(max(0, started + index / self.rate - time.monotonic()))

    async def join(self):
        if not self.warm:
            await self.senders["audio"].replace_track(self.audio)
            await self.senders["video"].replace_track(self.video)
        answer = await asyncio.to_thread(self.relay.ask, "POST", self.location + "/join", None, self.bearer)
        return answer.expect(200).json

    async def restart(self):
        """New ICE credentials on the same connection (RFC 9725): after a change of the network."""
        before = self.pc.remote_description.sdp
        offer = await self.pc.create_offer(webrtc.RTCOfferOptions(ice_restart=True))
        await self.pc.set_local_description(offer)
        answer = await asyncio.to_thread(self.relay.restart, self.location, self.bearer, offer.sdp, before)
        await self.pc.set_remote_description(webrtc.RTCSessionDescriptionInit(type="answer", sdp=answer))

    async def protocol(self):
        """What the selected pair runs over: udp or tcp."""
        report = await self.pc.get_stats()
        for item in report.values():
            if str(item.type) == "transport" and item.selected_candidate_pair_id:
                return report[report[item.selected_candidate_pair_id].local_candidate_id].protocol
        return None

    async def leave(self):
        answer = await asyncio.to_thread(self.relay.ask, "DELETE", self.location, None, self.bearer)
        answer.expect(200)

    async def totals(self):
        """Counters of what came in and of the transport."""
        found = {
            "framesDecoded": 0, "keyFramesDecoded": 0, "freezeCount": 0, "audioPackets": 0, "videoPackets": 0,
            "lost": 0, "audioEnergy": 0.0, "audioConcealed": 0, "audioSamples": 0, "dtlsState": None, "srtpCipher": None,
            "roundTrip": None, "nacks": 0, "plis": 0, "framesSent": 0,
        }
        for item in (await self.pc.get_stats()).values():
            kind = str(item.type)
            if kind == "inbound-rtp":
                found["lost"] += item.packets_lost or 0
                found["nacks"] += item.nack_count or 0
                if item.kind == "audio":
                    found["audioPackets"] += item.packets_received or 0
                    found["audioEnergy"] += item.total_audio_energy or 0
                    found["audioConcealed"] += item.concealed_samples or 0
                    found["audioSamples"] += item.total_samples_received or 0
                else:
                    found["videoPackets"] += item.packets_received or 0
                    found["framesDecoded"] += item.frames_decoded or 0
                    found["keyFramesDecoded"] += item.key_frames_decoded or 0
                    found["freezeCount"] += item.freeze_count or 0
                    found["plis"] += item.pli_count or 0
            elif kind == "outbound-rtp" and item.kind == "video":
                found["framesSent"] += item.frames_sent or 0
            elif kind == "transport":
                found["dtlsState"], found["srtpCipher"] = str(item.dtls_state), item.srtp_cipher
            elif kind == "candidate-pair" and item.current_round_trip_time is not None:
                found["roundTrip"] = item.current_round_trip_time
        return found

    async def until(self, condition, seconds, what):
        """Waits until a condition on the totals holds; returns the seconds that it took."""
        started = time.monotonic()
        while True:
            totals = await self.totals()
            if condition(totals):
                return time.monotonic() - started
            check(time.monotonic() - started < seconds, f"{self.uid}: no {what} within {seconds} s; {totals}")
            await asyncio.sleep(0.02)

    async def close(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.pc.close()
