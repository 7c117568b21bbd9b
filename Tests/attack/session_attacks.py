"""Attacks by clients with keys of their own, on media, feedback and gates: T03–T06, T50–T56, T70, T107.

The hostile clients are in rooms of their own; the victims' call runs beside them.
"""
import asyncio
import os
import struct
import time

import flood
import vectors
from guests import close, pair, until
from media_attacks import INSIDE
from peer import rtp
from scene import Sent
from wire import percentile


async def injection(scene):
    """every broken, foreign or unprotected SRTP packet of the vectors in the victims' own addresses"""
    payloads, sent = vectors.datagrams("srtp_packets", "drop") + vectors.datagrams("srtp_packets"), 0
    for index in (0, 1):
        sent += await scene.flood(payloads, len(payloads) * 3, rate=2_000, sources=scene.victim(index)[0])
    # Of the vectors none opens under the victims' keys.
    return Sent(sent, INSIDE, answers=0, exact=False)


async def short_packets(scene):
    """RTP and RTCP of 0 to 64 bytes, in a victim's address and from strangers"""
    payloads = [(head + bytes(64))[:length] for head in (b"\x80\xc9\x00\x01", b"\x80\x6f\x00\x01", b"\x9f\xef\xff\xff", b"\xbf\x6f\x00\x01")
                for length in range(65)]
    sent = await scene.flood(payloads, scene.count(1_000_000) if scene.is_long else 5_000)
    sent += await scene.flood(payloads, len(payloads), rate=2_000, sources=scene.victim()[0])
    return Sent(sent, INSIDE, answers=0, exact=False)


async def replay(scene):
    """everything that the victims sent in two seconds, sent again in their names"""
    scene.wire.keep(True)
    await asyncio.sleep(2)
    kept = [(peer, payload) for peer, payload in scene.wire.keep(False) if payload and payload[0] & 0xC0 == 0x80]
    await asyncio.sleep(0.2)
    packets = [flood.packet(payload, peer, scene.target) for peer, payload in kept]
    sent, _ = await flood.run(packets, 3_000, len(packets))
    await asyncio.sleep(0.2)
    faults = []
    for received in list(scene.wire.audio_out.values()):
        stamps = [stamp for _, stamp in received]
        if len(set(stamps)) < len(stamps):
            faults.append(f"{len(stamps) - len(set(stamps))} audio packets reached a victim twice")
    return Sent(sent, ["rtp-replayed", "rtcp-replayed"], answers=0, faults=faults)


async def malformed_media(scene):
    """malformed RTP and RTCP under the keys of a hostile client, and padding probes"""
    mallory, trent = await pair(scene)
    sent = 0
    for file, listed in (("rtp_packets", "drop"), ("rtp_packets", "cases"), ("rtcp_packets", "drop"), ("rtcp_packets", "cases"),
                         ("rtcp_twcc", "drop"), ("rtcp_twcc", "cases"), ("rtcp_ccfb", "drop"), ("rtcp_ccfb", "cases")):
        for data in vectors.datagrams(file, listed):
            mallory.sequence += 1
            own = data[:1] + bytes([data[1] & 128 | mallory.payload_type["audio"]]) + struct.pack(
                "!H", mallory.sequence) + data[4:8] + struct.pack("!I", mallory.ssrc["audio"]) + data[12:] if len(data) >= 12 else b""
            for own in (data, own if file == "rtp_packets" else b""):
                if len(own) < 8:
                    continue
                try:
                    await mallory.send_protected(own)
                except Exception:  # noqa: BLE001 — what libsrtp itself refuses is sent as it is
                    await mallory.send(own)
                sent += 1
            await asyncio.sleep(0.002)
    heard, faults = len(trent.media), []
    # Of an SSRC of its own: the vectors' have taken the place of the first one.
    await mallory.send_protected(rtp(mallory.payload_type["audio"], 1, 1, 0x77777777, bytes(40)))
    if not await until(lambda: len(trent.media) > heard, 1):
        faults.append("a good packet after them did not arrive")
    await close(scene, mallory, trent)
    return Sent(sent, note="and a good one after them arrives", faults=faults, growth=4096)


async def unreadable_payloads(scene):
    """payloads that no depacketiser takes, under a client's keys: they are the receiver's business, byte for byte"""
    mallory, trent = await pair(scene)
    faults, sent = [], 0
    for kind, file in (("audio", "opus"), ("video", "vp8")):
        payloads = [payload for payload in vectors.datagrams(file, "unparsable") if payload]
        for offset, payload in enumerate(payloads):
            await mallory.send_protected(
                rtp(mallory.payload_type[kind], 2_000 + offset, 9_000, mallory.ssrc[kind], payload))
        sent += len(payloads)
        await until(lambda: all(payload in trent.heard() for payload in payloads), 1)
        missing = [payload.hex() for payload in payloads if payload not in trent.heard()]
        if missing and kind == "audio":
            faults.append(f"{kind} payloads did not arrive: {missing}")
    await close(scene, mallory, trent)
    return Sent(sent, note="arrive unchanged", faults=faults, growth=4096)


async def source_flood(scene):
    """thousands of SSRCs under a client's keys, one of them the victim's"""
    mallory, trent = await pair(scene)
    count = 20_000 if scene.is_long else 2_000
    packets = []
    for index in range(count):
        packets.append(mallory.protect(rtp(mallory.payload_type["audio"], 1, 1, 0x10000000 + index, bytes(20))))
    sent = await scene.flood(packets, count, rate=4_000, sources=mallory.tuple)
    heard = len(trent.media)
    await close(scene, mallory, trent)
    return Sent(sent, ["rtp-source-limit", "rtp-unknown-source-rate-limited", "rtp-rate-limited"], exact=False, growth=4096,
                note=f"16 are kept; {heard} packets passed")


async def feedback_storm(scene):
    """NACKs of 300 numbers, key frame requests, BYE and reports for foreign streams, 1,000 a second"""
    mallory, trent = await pair(scene)
    video = mallory.sent_by_relay["video"]
    # Something to repeat.
    for number in range(100):
        await trent.send_protected(rtp(trent.payload_type["video"], 3_000 + number, number * 3_000, trent.ssrc["video"],
                                       b"\x10" + b"\x00\x9d\x01\x2a" + os.urandom(600)))
        await asyncio.sleep(0.002)
    await until(lambda: len([one for one in mallory.media if one[1] & 127 == mallory.payload_type["video"]]) > 50, 1)
    first = next((struct.unpack_from("!H", one, 2)[0] for one in mallory.media if one[1] & 127 == mallory.payload_type["video"]), 0)
    nack = b"\x81\xcd" + struct.pack("!H", 2 + 17) + struct.pack("!II", 1, video) + b"".join(
        struct.pack("!HH", (first + 17 * index) & 0xFFFF, 0xFFFF) for index in range(17))
    pli = b"\x81\xce\x00\x02" + struct.pack("!II", 1, video)
    foreign = b"\x81\xcb\x00\x01" + struct.pack("!I", trent.ssrc["audio"])
    remb = b"\x8f\xce\x00\x05" + struct.pack("!II", 1, 0) + b"REMB\x01\x00\x00\x00" + struct.pack("!I", video)
    asked, before = len(trent.control), scene.wire.sent_to[mallory.tuple]
    packets = [mallory.protect(one) for _ in range(500) for one in (nack, pli, foreign, remb)]
    sent = await scene.flood(packets, len(packets), rate=1_000, sources=mallory.tuple)
    requests = sum(1 for data in trent.control[asked:] if has_key_frame_request(data))
    repeats = scene.wire.sent_to[mallory.tuple] - before
    faults = []
    if requests > 2 * scene.flood_seconds + 3:
        faults.append(f"the sender was asked for {requests} key frames in {scene.flood_seconds:.1f} s")
    if repeats > 100 * 700 * (scene.flood_seconds + 1):
        faults.append(f"{repeats} bytes of repeats")
    joined = [one["state"] for one in scene.relay.room(mallory.room)["participants"]]
    if joined != ["joined", "joined"]:
        faults.append(f"the participants are {joined}")
    await close(scene, mallory, trent)
    return Sent(sent, faults=faults, growth=4096, note=f"{requests} key frame requests, {repeats // 1000} kB to it")


def has_key_frame_request(data):
    at = 0
    while at + 4 <= len(data):
        if data[at + 1] == 206 and data[at] & 31 in (1, 4):
            return True
        at += 4 + 4 * struct.unpack_from("!H", data, at + 2)[0]
    return False


async def legitimate_flood(scene):
    """ten times the packets that a client may send, all of them good"""
    mallory, trent = await pair(scene)
    count = 60_000 if scene.is_long else 20_000
    packets = [mallory.protect(mallory.audio(bytes(100))) for _ in range(count)]
    heard = len(trent.media)
    sent = await scene.flood(packets, count, rate=20_000, sources=mallory.tuple)
    await asyncio.sleep(0.2)
    passed = len(trent.media) - heard
    bound = 2_000 * (scene.flood_seconds + 1.2)
    faults = [f"{passed} packets passed in {scene.flood_seconds:.1f} s"] if passed > bound else []
    await close(scene, mallory, trent)
    if not passed:
        faults.append("nothing passed")
    return Sent(sent - passed, ["rtp-rate-limited"], exact=False, faults=faults, growth=4096, note=f"{passed} passed")


async def before_the_answer(scene):
    """media from the prepare on: by both sides, while nobody and while only one has joined"""
    mallory, trent = await pair(scene, join=False)
    faults = []

    async def talk(what, may_pass):
        before = len(trent.media) + len(mallory.media)
        for _ in range(25):
            for peer in (mallory, trent):
                try:
                    await peer.send_protected(peer.audio())
                except ConnectionError:
                    pass
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        passed = len(trent.media) + len(mallory.media) - before
        if (passed > 0) != may_pass:
            faults.append(f"{passed} packets passed {what}")

    await talk("before anybody joined", False)
    await mallory.join()
    await talk("while one had joined", False)
    await trent.join()
    await talk("after both had joined", True)
    await trent.leave()
    await asyncio.sleep(0.1)
    await talk("after one had left", False)
    await close(scene, mallory, trent)
    return Sent(200, note="nothing before both have joined, nothing after one left", faults=faults, growth=4096)


async def stalled_neighbour(scene):
    """a room whose receiver stops answering and asks for everything again, beside a plain call"""
    mallory, trent = await pair(scene)
    video = trent.sent_by_relay["video"]
    began = time.time()
    quiet = scene.wire.delays(began - 5, began)
    for number in range(500):
        await mallory.send_protected(rtp(mallory.payload_type["video"], 4_000 + number, number * 3_000, mallory.ssrc["video"],
                                         b"\x10" + b"\x00\x9d\x01\x2a" + bytes(1_000)))
        if number % 5 == 0:
            await trent.send_protected(b"\x81\xcd\x00\x03" + struct.pack("!IIHH", 1, video, (1024 + number) & 0xFFFF, 0xFFFF))
        await asyncio.sleep(0.002)
    busy = percentile(scene.wire.delays(began, time.time()), 0.99)
    await close(scene, mallory, trent)
    return Sent(600, growth=8192, note=f"p99 in the relay {percentile(quiet, 0.99) * 1000:.2f} ms, then {busy * 1000:.2f} ms",
                soft=[f"p99 in the relay {busy * 1000:.1f} ms"] if busy > 0.02 else [])
