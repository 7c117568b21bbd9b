#!/usr/bin/env python3
"""One libwebrtc client of the lab: its connection, what it sends, and what its statistics say.

It knows neither a relay nor a link: offers and answers go through whoever owns it. As a program it is the same client in a process
of its own, which may be in another network namespace: commands as lines of JSON on its input, an answer to each on its output.
"""
import asyncio
import json
import sys
import time

import webrtc

import scene

webrtc.allow_loopback()

MOST_KBIT = 2_000
# What is counted, by the statistics' type and kind: our name, libwebrtc's.
INBOUND_VIDEO = {
    "frames": "frames_decoded", "keyFrames": "key_frames_decoded", "freezes": "freeze_count", "freezeSeconds": "total_freezes_duration",
    "videoBytes": "bytes_received", "repeatedBytes": "retransmitted_bytes_received", "videoFecBytes": "fec_bytes_received",
    "videoLost": "packets_lost", "nacks": "nack_count", "plis": "pli_count", "height": "frame_height"}
INBOUND_AUDIO = {
    "audioBytes": "bytes_received", "audioPackets": "packets_received", "audioLost": "packets_lost", "concealed": "concealed_samples",
    "silentConcealed": "silent_concealed_samples", "samples": "total_samples_received", "fecPackets": "fec_packets_received"}
OUTBOUND_VIDEO = {
    "sentVideoBytes": "bytes_sent", "sentVideoHeaders": "header_bytes_sent", "sentVideoPackets": "packets_sent", "sentFrames": "frames_sent",
    "targetRate": "target_bitrate"}
OUTBOUND_AUDIO = {"sentAudioBytes": "bytes_sent", "sentAudioHeaders": "header_bytes_sent", "sentAudioPackets": "packets_sent"}
PAIR = {"roundTrip": "current_round_trip_time", "estimate": "available_outgoing_bitrate"}
FIELDS = {
    ("inbound-rtp", "video"): INBOUND_VIDEO, ("inbound-rtp", "audio"): INBOUND_AUDIO, ("outbound-rtp", "video"): OUTBOUND_VIDEO,
    ("outbound-rtp", "audio"): OUTBOUND_AUDIO, ("remote-inbound-rtp", "audio"): {"toldLoss": "fraction_lost"},
    ("candidate-pair", None): PAIR}


class Pauses:
    """The longest time without a new picture, and without a new packet of sound."""

    def __init__(self):
        self.counts, self.moments = {}, {}
        self.longest = {"pictureMs": 0, "soundMs": 0}

    def note(self, sample, now):
        for name, field in (("pictureMs", "frames"), ("soundMs", "audioPackets")):
            if sample[field] != self.counts.get(name):
                if name in self.moments:
                    self.longest[name] = max(self.longest[name], round((now - self.moments[name]) * 1000))
                self.counts[name], self.moments[name] = sample[field], now

    def end(self, now):
        """With the pause that lasts, if any."""
        return {name: max(longest, round((now - self.moments[name]) * 1000)) for name, longest in self.longest.items()}


class LabPeer:
    """A client in this process."""

    def __init__(self):
        self.pc = webrtc.RTCPeerConnection(webrtc.RTCConfiguration(ice_servers=[]))
        self.audio = webrtc.MediaStreamTrackGenerator("audio")
        self.video = webrtc.MediaStreamTrackGenerator("video")
        self.ready = asyncio.Event()
        self.pc.on("connectionstatechange", lambda _event: self.ready.set() if self.pc.connection_state == "connected" else None)
        self.tasks = [asyncio.create_task(self.speak()), asyncio.create_task(self.show())]
        self.watching, self.pauses = None, None

    async def offer(self, restart=False):
        if restart:
            self.pc.restart_ice()
        elif not self.pc.get_transceivers():
            encoding = webrtc.RTCRtpEncodingParameters(max_bitrate=MOST_KBIT * 1000)
            for track, encodings in ((self.audio, []), (self.video, [encoding])):
                self.pc.add_transceiver(track, webrtc.RTCRtpTransceiverInit(direction="sendrecv", send_encodings=encodings))
        await self.pc.set_local_description()
        return self.pc.local_description.sdp

    async def answer(self, offer):
        await self.pc.set_remote_description(webrtc.RTCSessionDescriptionInit(type="offer", sdp=offer))
        for transceiver, track in zip(self.pc.get_transceivers(), (self.audio, self.video)):
            if transceiver.sender.track is None:
                transceiver.direction = "sendrecv"
                await transceiver.sender.replace_track(track)
        await self.pc.set_local_description()
        parameters = self.pc.get_transceivers()[1].sender.get_parameters()
        for encoding in parameters.encodings:
            encoding.max_bitrate = MOST_KBIT * 1000
        await self.pc.get_transceivers()[1].sender.set_parameters(parameters)
        return self.pc.local_description.sdp

    async def accept(self, answer):
        await self.pc.set_remote_description(webrtc.RTCSessionDescriptionInit(type="answer", sdp=answer))

    async def connected(self):
        await asyncio.wait_for(self.ready.wait(), 15)

    async def speak(self):
        writer = self.audio.writable.get_writer()
        blocks, index, started = scene.sound(), 0, time.monotonic()
        while True:
            await writer.write(webrtc.AudioData(webrtc.AudioDataInit(
                format="s16", sample_rate=scene.SAMPLE_RATE, number_of_frames=scene.BLOCK, number_of_channels=1,
                timestamp=index * 10_000, data=blocks[index % len(blocks)])))
            index += 1
            await asyncio.sleep(max(0, started + index * 0.01 - time.monotonic()))

    async def show(self):
        writer = self.video.writable.get_writer()
        frames, index, started = scene.pictures(), 0, time.monotonic()
        while True:
            stamp = int((time.monotonic() - started) * 1_000_000)
            await writer.write(webrtc.VideoFrame(frames[index % len(frames)], webrtc.VideoFrameBufferInit(
                format="I420", coded_width=scene.WIDTH, coded_height=scene.HEIGHT, timestamp=stamp)))
            index += 1
            await asyncio.sleep(max(0, started + index / scene.RATE - time.monotonic()))

    async def sample(self):
        """What the client's statistics say now; counters since its start."""
        found = {name: 0 for fields in FIELDS.values() for name in fields}
        for item in (await self.pc.get_stats()).values():
            kind = str(item.type)
            if kind == "candidate-pair" and not item.nominated:
                continue
            for name, field in FIELDS.get((kind, str(item.kind) if hasattr(item, "kind") else None), {}).items():
                found[name] = getattr(item, field) or found[name]
        return found

    async def watch(self):
        """From now on the longest pauses are measured, to about 20 ms."""
        self.pauses = Pauses()

        async def look():
            while True:
                self.pauses.note(await self.sample(), time.monotonic())
                await asyncio.sleep(0.02)

        self.watching = asyncio.create_task(look())
        self.tasks.append(self.watching)

    async def paused(self):
        """The longest pauses since `watch`, which ends with it."""
        self.watching.cancel()
        return self.pauses.end(time.monotonic())

    async def close(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.pc.close()


class RemotePeer:
    """The same client in a process of its own. `prefix`: what the command begins with."""

    def __init__(self, prefix=()):
        self.prefix = prefix

    async def start(self):
        self.process = await asyncio.create_subprocess_exec(
            *self.prefix, sys.executable, __file__, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 20)
        self.turn = asyncio.Lock()
        return self

    def __getattr__(self, name):
        async def ask(*arguments):
            async with self.turn:
                self.process.stdin.write(json.dumps([name, *arguments]).encode() + b"\n")
                while line := await self.process.stdout.readline():
                    if line.startswith(b"{"):
                        answer = json.loads(line)
                        if "error" in answer:
                            raise AssertionError(f"{name}: {answer['error']}")
                        return answer["value"]
            raise AssertionError(f"the client ended before it answered {name}")

        return ask

    async def close(self):
        self.process.stdin.close()
        await self.process.wait()


async def serve():
    loop = asyncio.get_running_loop()
    peer = None
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        name, *arguments = json.loads(line)
        # Made when it is first asked for something: then its network is there.
        peer = peer or LabPeer()
        try:
            answer = {"value": await getattr(peer, name)(*arguments)}
        except Exception as error:  # noqa: BLE001 — told to the owner
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    if peer:
        await peer.close()


if __name__ == "__main__":
    asyncio.run(serve())
