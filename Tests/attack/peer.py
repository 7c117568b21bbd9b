"""A client with real keys that turns hostile: aiortc's ICE, DTLS and SRTP, but its RTP and RTCP are whatever a test wants.

It has no encoder and no decoder: it sends bytes under its own keys and notes what it gets, in clear.
"""
import asyncio
import struct

import aioice.ice
import aiortc
from aiortc.rtcdtlstransport import is_rtcp

from relay import participant

ADDRESSES = {"next": "127.0.0.70"}
# aiortc leaves loopback out; here it is all there is.
aioice.ice.get_host_addresses = lambda use_ipv4, use_ipv6: [ADDRESSES["next"]]


def rtp(payload_type, sequence, timestamp, ssrc, payload, marker=False):
    return struct.pack(
        "!BBHII", 0x80, payload_type | (128 if marker else 0), sequence & 0xFFFF, timestamp & 0xFFFFFFFF, ssrc) + payload


class Peer:
    def __init__(self, relay, room, uid, address="127.0.0.70"):
        self.relay, self.room, self.uid, self.address = relay, room, uid, address
        self.bearer = participant(room, uid)
        self.media, self.control = [], []
        # What it sends right behind the first DTLS datagram of its own, in clear.
        self.beside_hello = []
        self.sequence = 1000
        # Another certificate than a fresh one.
        self.certificate = None

    async def prepare(self, state="prepared", change=lambda sdp: sdp, seconds=10):
        await self.post(state, change)
        try:
            await asyncio.wait_for(self.connected.wait(), seconds)
        except asyncio.TimeoutError:
            raise AssertionError(f"{self.uid} is {self.pc.connectionState} {seconds} s after its POST") from None
        return self

    async def post(self, state="prepared", change=lambda sdp: sdp):
        ADDRESSES["next"] = self.address
        self.pc = aiortc.RTCPeerConnection(aiortc.RTCConfiguration(iceServers=[]))
        if self.certificate:
            self.pc._RTCPeerConnection__certificates = [self.certificate]
        for kind in ("audio", "video"):
            self.pc.addTransceiver(kind, direction="sendrecv")
        self.connected = asyncio.Event()

        @self.pc.on("connectionstatechange")
        def changed():
            if self.pc.connectionState == "connected":
                self.connected.set()

        await self.pc.setLocalDescription(await self.pc.createOffer())
        for transceiver in self.pc.getTransceivers():
            self.listen(transceiver.sender.transport)
        self.offer = self.pc.localDescription.sdp
        self.location, self.answer = await asyncio.to_thread(
            self.relay.prepare, self.room, self.bearer, change(self.offer), state)
        await self.pc.setRemoteDescription(aiortc.RTCSessionDescription(self.answer, "answer"))

    def listen(self, dtls):
        """Notes what comes, and sends `beside_hello` when the handshake begins."""
        async def media(data, arrival_time_ms):
            self.media.append(data)

        async def control(data):
            self.control.append(data)

        write = dtls._write_ssl

        async def write_ssl():
            await write()
            beside, self.beside_hello = self.beside_hello, []
            for data in beside:
                await dtls.transport._send(data)

        dtls._handle_rtp_data, dtls._handle_rtcp_data, dtls._write_ssl = media, control, write_ssl

    # What it is known by.

    @property
    def dtls(self):
        return self.pc.getTransceivers()[0].sender.transport

    @property
    def tuple(self):
        pair = next(iter(self.dtls.transport._connection._nominated.values()))
        return pair.local_candidate.host, pair.local_candidate.port

    @property
    def ssrc(self):
        return {kind.kind: kind.sender._ssrc for kind in self.pc.getTransceivers()}

    @property
    def payload_type(self):
        return payload_types(self.answer)

    @property
    def sent_by_relay(self):
        """SSRCs that the relay's answer names, by kind."""
        return named_sources(self.answer)

    # What it does.

    async def join(self):
        (await asyncio.to_thread(self.relay.ask, "POST", self.location + "/join", None, self.bearer)).expect(200)

    async def leave(self):
        await asyncio.to_thread(self.relay.ask, "DELETE", self.location, None, self.bearer)

    def protect(self, data):
        return self.dtls._tx_srtp.protect_rtcp(data) if is_rtcp(data) else self.dtls._tx_srtp.protect(data)

    async def send(self, data):
        """Bytes as they are, from its own address."""
        await self.dtls.transport._send(data)

    async def send_protected(self, data):
        await self.send(self.protect(data))

    def audio(self, payload=b"\xfc" + bytes(40)):
        """Its next audio packet, in clear."""
        self.sequence += 1
        return rtp(
            self.payload_type["audio"], self.sequence, self.sequence * 960, self.ssrc["audio"], payload)

    def heard(self, since=0):
        """Payloads of the RTP packets that came."""
        return [data[12 + 4 * (data[0] & 15):] if not data[0] & 16 else behind_extension(data) for data in self.media[since:]]

    async def close(self):
        await self.pc.close()


def behind_extension(data):
    at = 12 + 4 * (data[0] & 15)
    return data[at + 4 + 4 * struct.unpack_from("!H", data, at + 2)[0]:]


def sections(sdp):
    """The lines of each m-line's section, by kind (the first of a kind)."""
    found, kind = {}, None
    for line in sdp.splitlines():
        if line.startswith("m="):
            kind = line[2:].split()[0]
            kind = kind if kind not in found else None
            if kind:
                found[kind] = []
        if kind:
            found[kind].append(line)
    return found


def payload_types(sdp):
    """The first payload type of each kind."""
    return {kind: int(lines[0].split()[3]) for kind, lines in sections(sdp).items()}


def named_sources(sdp):
    return {
        kind: next((int(line[7:].split()[0]) for line in lines if line.startswith("a=ssrc:")), 0)
        for kind, lines in sections(sdp).items()}


def credentials(sdp):
    """ICE user fragment and password of a description."""
    lines = sdp.splitlines()
    return tuple(
        next(line[len(name):] for line in lines if line.startswith(name)).strip() for name in ("a=ice-ufrag:", "a=ice-pwd:"))

