"""libwebrtc clients of the lab: a picture that fills whatever rate it may use, a tone, and figures once a second.

`RelayCall` is a call through the relay, `DirectCall` the same two clients with no relay between; both run over one emulated link.
"""
import asyncio
import functools
import random
import re
import sys
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "interop"))

import webrtc  # noqa: E402
import wrtc_client  # noqa: E402
from relay import participant  # noqa: E402

WIDTH, HEIGHT, RATE = 640, 480, 25


@functools.cache
def noise():
    """A second of pictures that no codec can guess: blocks of random grey over a moving bar."""
    source = random.Random(7)
    frames = []
    chroma = bytes([128]) * (WIDTH // 2 * HEIGHT // 2 * 2)
    for step in range(RATE):
        rows = []
        for _ in range(HEIGHT // 4):
            row = b"".join(bytes([source.randrange(40, 216)]) * 4 for _ in range(WIDTH // 4))
            rows.append(row * 4)
        frames.append(b"".join(rows) + chroma)
    return frames


class LabClient(wrtc_client.WrtcClient):
    width, height, rate = WIDTH, HEIGHT, RATE
    pictures = staticmethod(noise)

    async def sample(self):
        """What the client's statistics say now; counters since its start."""
        found = dict.fromkeys((
            "frames", "freezes", "freezeSeconds", "videoBytes", "audioBytes", "audioLost", "audioPackets", "videoLost", "concealed",
            "silentConcealed", "samples", "sentBytes", "keyFrames", "nacks", "plis", "roundTrip", "estimate", "height"), 0)
        for item in (await self.pc.get_stats()).values():
            kind = str(item.type)
            if kind == "inbound-rtp" and item.kind == "video":
                found["frames"] += item.frames_decoded or 0
                found["keyFrames"] += item.key_frames_decoded or 0
                found["freezes"] += item.freeze_count or 0
                found["freezeSeconds"] += item.total_freezes_duration or 0
                found["videoBytes"] += item.bytes_received or 0
                found["videoLost"] += item.packets_lost or 0
                found["nacks"] += item.nack_count or 0
                found["plis"] += item.pli_count or 0
                found["height"] = item.frame_height or found["height"]
            elif kind == "inbound-rtp":
                found["audioBytes"] += item.bytes_received or 0
                found["audioPackets"] += item.packets_received or 0
                found["audioLost"] += item.packets_lost or 0
                found["concealed"] += item.concealed_samples or 0
                found["silentConcealed"] += item.silent_concealed_samples or 0
                found["samples"] += item.total_samples_received or 0
            elif kind == "outbound-rtp":
                found["sentBytes"] += item.bytes_sent or 0
            elif kind == "candidate-pair" and item.current_round_trip_time is not None:
                found["roundTrip"] = item.current_round_trip_time
                found["estimate"] = item.available_outgoing_bitrate or found["estimate"]
        return found


def to_link(sdp, port):
    """A description whose only way is the link's end at `port`."""
    lines = [line for line in sdp.splitlines() if not line.startswith("a=candidate:")]
    found = []
    for line in lines:
        found.append(line)
        if line.startswith("a=mid:"):
            found.append(f"a=candidate:1 1 udp 2122260223 127.0.0.1 {port} typ host")
            found.append("a=end-of-candidates")
    return "\r\n".join(found) + "\r\n"


class RelayCall:
    """`first` behind a perfect link, `second` behind the emulated one."""

    def __init__(self, relay, link):
        self.relay, self.link = relay, link

    async def start(self):
        room = self.relay.create_room(kind="peer", media="video")
        self.first = LabClient(self.relay, room, "first", participant(room, "first"))
        self.second = LabClient(self.relay, room, "second", participant(room, "second"), proxy=self)
        await self.first.prepare()
        await self.second.prepare()
        await self.first.join()
        await self.second.join()

    def rewritten(self, answer):
        return re.sub(
            r"^(a=candidate:\S+ \d+ \S+ \d+) (\S+) \d+ ",
            lambda found: f"{found[1]} 127.0.0.1 {self.link.ports['a']} ", answer, flags=re.MULTILINE)

    async def stop(self):
        await asyncio.gather(self.first.leave(), return_exceptions=True)
        await asyncio.gather(self.first.close(), self.second.close())


class DirectCall:
    """The same clients with nothing between them but the link."""

    def __init__(self, link):
        self.link = link

    async def start(self):
        self.first = LabClient(None, None, "first", None)
        self.second = LabClient(None, None, "second", None)
        connected = []
        for client in (self.first, self.second):
            client.pc = webrtc.RTCPeerConnection(webrtc.RTCConfiguration(ice_servers=[]))
            client.audio = webrtc.MediaStreamTrackGenerator("audio")
            client.video = webrtc.MediaStreamTrackGenerator("video")
            ready = asyncio.Event()
            connected.append(ready)
            client.pc.on("connectionstatechange", lambda _event, client=client, ready=ready: (
                ready.set() if client.pc.connection_state == "connected" else None))
        init = webrtc.RTCRtpTransceiverInit(direction="sendrecv")
        for track in (self.first.audio, self.first.video):
            self.first.pc.add_transceiver(track, init)
        await self.first.pc.set_local_description()
        offer = await self.gathered(self.first.pc)
        await self.second.pc.set_remote_description(webrtc.RTCSessionDescriptionInit(
            type="offer", sdp=to_link(offer, self.link.ports["a"])))
        for transceiver, track in zip(self.second.pc.get_transceivers(), (self.second.audio, self.second.video)):
            transceiver.direction = "sendrecv"
            await transceiver.sender.replace_track(track)
        await self.second.pc.set_local_description()
        answer = await self.gathered(self.second.pc)
        await self.first.pc.set_remote_description(webrtc.RTCSessionDescriptionInit(
            type="answer", sdp=to_link(answer, self.link.ports["b"])))
        for client in (self.first, self.second):
            client.tasks = [asyncio.create_task(client.play_tone()), asyncio.create_task(client.play_pictures())]
        await asyncio.wait_for(asyncio.gather(*(ready.wait() for ready in connected)), 15)

    @staticmethod
    async def gathered(pc):
        for _ in range(100):
            if str(pc.ice_gathering_state) == "complete":
                break
            await asyncio.sleep(0.02)
        return pc.local_description.sdp

    async def stop(self):
        await asyncio.gather(self.first.close(), self.second.close())
