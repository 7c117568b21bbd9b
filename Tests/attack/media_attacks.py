"""Attacks on the media port by strangers, by clients with credentials, and in a victim's name: T01–T21, T101.

Each function's first line is the attack in words. It returns `Sent`; `scene.trial` judges it by the common line.
"""
import asyncio
import os
import random
import socket
import time

import stun
import vectors
from scene import RawSession, Sent
from wire import percentile

# Every reason by which a stranger's datagram may be dropped: it is one of these, once.
STRANGER = (
    "empty", "oversize", "unknown-class", "stun-malformed", "stun-unexpected-class", "stun-no-credentials",
    "stun-unknown-ufrag", "stun-unknown-transaction", "dtls-unknown-address", "rtp-unknown-address", "rtcp-unknown-address")
# And one that comes from a client's own address.
INSIDE = (
    *STRANGER, "stun-remote-ufrag", "stun-integrity", "stun-rate-limited", "dtls-rate-limited", "rtp-malformed",
    "rtp-unknown-payload-type", "rtp-unknown-source-rate-limited", "rtp-source-limit", "rtp-replayed", "rtp-authentication",
    "rtcp-too-short", "rtcp-authentication", "rtcp-replayed", "rtp-rate-limited", "refused-records",
    "dropped-without-hello", "dropped-over-budget")


async def first_bytes(scene):
    """every first byte, each length from 0 to 64, from strangers"""
    draw = random.Random(1)
    payloads = [bytes([first] * min(1, length)) + draw.randbytes(max(0, length - 1)) for first in range(256) for length in range(65)]
    sent = await scene.flood(payloads, scene.count(1_000_000) if scene.is_long else len(payloads))
    return Sent(sent, STRANGER, answers=0)


async def stun_parser(scene):
    """malformed STUN and past crash inputs, from strangers and in a victim's name"""
    payloads = vectors.datagrams("stun", wanted=lambda row: row["expect"] == "drop") + vectors.seeds("stun")
    sent = await scene.flood(payloads, scene.count(1_000_000) if scene.is_long else 4_000)
    sent += await scene.flood(payloads, len(payloads), rate=2_000, sources=scene.victim()[0])
    return Sent(sent, INSIDE, answers=0, exact=False)


async def stun_reflection(scene):
    """Binding requests without credentials that an open STUN server would answer"""
    wanted = ("browser-", "malformed-header-only-request", "no-mi", "no-username", "unknown-ufrag", "binding-indication")
    payloads = vectors.datagrams("stun", wanted=lambda row: row["name"].startswith(wanted))
    sent = await scene.flood(payloads, scene.count(1_000_000))
    return Sent(sent, STRANGER, answers=0)


async def state_per_source(scene):
    """well-formed checks with random user fragments from ever new source ports"""
    payloads = [stun.check(f"{os.urandom(4).hex()}:{os.urandom(4).hex()}", os.urandom(12).hex()) for _ in range(10_000)]
    sent = await scene.flood(payloads, scene.count(1_000_000))
    return Sent(sent, ["stun-unknown-ufrag"], answers=0)


async def partial_checks(scene):
    """a good check of a waiting client with one byte changed, every byte in turn; then the good one"""
    session = RawSession(scene)
    good = session.check()
    faults, changed = [], []
    # Cookie, class and user fragments decide where it is counted, not whether it is answered.
    for index in range(len(good)):
        changed.append(good[:index] + bytes([good[index] ^ 0x01]) + good[index + 1:])
    sent = await scene.flood(changed, len(changed), rate=1_000)
    others = [
        stun.check(session.username, None), stun.check(session.username, session.password, fingerprint=False),
        stun.check(f"{session.fragment}:{session.theirs}", session.password),
        stun.check(f"{session.theirs}:wrong", session.password), stun.check(session.username, session.password + "x"),
        stun.check(session.username, ""), stun.check(f"{session.theirs}:", session.password)]
    sent += await scene.flood(others, len(others), rate=1_000)
    # Tries that are worth a hash come back: 50 a second.
    await asyncio.sleep(1.1)
    answer = await session.ask(good)
    if answer is None or stun.kind(answer) != stun.SUCCESS:
        faults.append("the unchanged check was not answered")
    session.close()
    return Sent(sent, INSIDE, answers=0, faults=faults)


async def failed_checks(scene):
    """checks with the victim's user name and a wrong key, and broken SRTP, from strangers and in the victim's own address"""
    address, username, _password = scene.victim()
    checks = [stun.check(username, os.urandom(12).hex()) for _ in range(1_000)]
    dos = vectors.named("srtp_packets", "freeswitch-srtp-dos")
    count = scene.count(1_000_000) // 4
    sent = await scene.flood(checks, count)
    sent += await scene.flood(checks, count, rate=20_000, sources=address)
    sent += await scene.flood([dos], count)
    sent += await scene.flood([dos], count, rate=20_000, sources=address)
    return Sent(sent, INSIDE, answers=0, exact=False)


async def role_conflict(scene):
    """a check that claims our role, then one with an attribute that must be understood, then a good one"""
    session, faults = RawSession(scene), []
    for check, code in (
            (session.check(controlling=False), 487), (session.check(more=[(0x7FFF, b"abcd")]), 420), (session.check(), None)):
        answer = await session.ask(check)
        if answer is None or stun.error_code(answer) != code:
            faults.append(f"answered with {answer and stun.error_code(answer)} instead of {code}")
    session.close()
    return Sent(3, note="487, 420, then success", faults=faults)


async def latching(scene):
    """the RTP spray that makes a relay send its media to whoever sprays, over the whole call"""
    spray = vectors.named("srtp_packets", "rtpengine-bleed-spray")
    hello = vectors.named("dtls", "clienthello-null-cipher-race")
    own = scene.wire.keep(True)
    await asyncio.sleep(0.3)
    own = [payload for _, payload in scene.wire.keep(False) if payload and payload[0] & 0xC0 == 0x80][:50]
    # What the victims themselves sent, too: authentic packets from a place that no check came from.
    payloads = [spray, *own, spray[:12], hello]
    sent = await scene.flood(payloads, scene.count(1_000_000))
    return Sent(sent, STRANGER, answers=0)


async def aimed_media(scene):
    """a client's valid, nominating check of the highest priority from the address of a host that never answers"""
    address, username, password = scene.victim()
    before = scene.wire.to("127.0.0.77")
    check = stun.check(username, password, priority=0x7FFFFFFF)
    await scene.flood([check], 1, sources=("127.0.0.77", 7777))
    await asyncio.sleep(2.5)
    bytes_, packets = (now - then for now, then in zip(scene.wire.to("127.0.0.77"), before))
    faults = []
    if bytes_ > 3 * len(check):
        faults.append(f"{bytes_} bytes went to the host, for {len(check)}")
    if scene.wire.media_to[("127.0.0.77", 7777)]:
        faults.append(f"{scene.wire.media_to[('127.0.0.77', 7777)]} media packets went to the host")
    return Sent(1, note=f"{packets} datagrams, {bytes_} bytes to the host, no media", faults=faults)


async def silent_handshake(scene):
    """an authenticated check and a ClientHello from a host that never answers; what it is sent in all repeats"""
    session = RawSession(scene, address="127.0.0.77")
    hello = vectors.named("dtls", "clienthello-null-cipher-race")
    source = session.address
    check = session.check()
    # By hand, so that nobody answers the relay's own checks.
    for payload in (check, client_hello(), hello):
        await scene.flood([payload], 1, sources=source)
        await asyncio.sleep(0.05)
    received = len(check) + len(hello) + len(client_hello())
    await asyncio.sleep(12 if scene.is_long else 3)
    sent_bytes = scene.wire.sent_to[source]
    faults = [f"{sent_bytes} bytes for {received}"] if sent_bytes > 3 * received else []
    session.close()
    return Sent(3, note=f"{sent_bytes} bytes for {received}", faults=faults)


def client_hello():
    """A ClientHello of DTLS 1.2 that the relay can serve."""
    def number(value, size):
        return value.to_bytes(size, "big")

    def extension(kind, value):
        return number(kind, 2) + number(len(value), 2) + value

    extensions = b"".join([
        extension(10, number(2, 2) + number(23, 2)), extension(11, b"\x01\x00"), extension(13, number(4, 2) + b"\x04\x03\x08\x04"),
        extension(14, number(4, 2) + b"\x00\x07\x00\x01\x00"), extension(23, b"")])
    body = (
        b"\xfe\xfd" + bytes(range(32)) + b"\x00" + b"\x00" + number(4, 2) + b"\xc0\x2b\xc0\x2f" + b"\x01\x00"
        + number(len(extensions), 2) + extensions)
    message = b"\x01" + number(len(body), 3) + number(0, 2) + number(0, 3) + number(len(body), 3) + body
    return b"\x16\xfe\xfd" + number(0, 2) + number(0, 6) + number(len(message), 2) + message


async def many_tuples(scene):
    """valid checks of one client from thousands of source ports"""
    address, username, password = scene.victim(1)
    count = 60_000 if scene.is_long else 5_000
    checks = [stun.check(username, password, nominates=False, priority=1) for _ in range(count)]
    sources = iter([("127.0.0.78", 2_000 + index % 60_000) for index in range(count)])
    import flood
    packets = [flood.packet(payload, next(sources), scene.target) for payload in checks]
    sent, _ = await flood.run(packets, 5_000, count)
    received = sum(map(len, checks))
    # The relay's own checks of the last of them are repeated for a while.
    await asyncio.sleep(2.5)
    # Each is answered and may draw one check of ours: never more than three times what came.
    return Sent(sent, ["stun-rate-limited", "checks_answered"], answers=3, received=received, exact=False,
                note=f"{len(checks[0])} bytes each")


async def hash_flood(scene):
    """the right user fragment, which is visible on the wire, with a wrong key, as fast as it goes: processor time"""
    _address, username, _password = scene.victim()
    checks = [stun.check(username, os.urandom(12).hex()) for _ in range(1_000)]
    began, idle = time.time(), scene.worker_seconds()
    await asyncio.sleep(0.5)
    idle = (scene.worker_seconds() - idle) / 0.5
    cpu = scene.worker_seconds()
    # The same against a client that is about to come: its first check, from an address that nobody knows, must get its turn.
    newcomer = RawSession(scene)
    checks += [stun.check(newcomer.username, os.urandom(12).hex()) for _ in range(1_000)]
    flooding = asyncio.create_task(scene.flood(checks, 1_000_000 if scene.is_long else 50_000))
    # It starts a process first.
    await asyncio.sleep(0.4)
    first = time.monotonic()
    is_answered = await newcomer.ask(newcomer.check()) is not None
    first = time.monotonic() - first
    during = not flooding.done()
    sent = await flooding
    used = (scene.worker_seconds() - cpu) / scene.flood_seconds - idle
    answered = scene.wire.checks(began)
    received = len(newcomer.check())
    newcomer.close()
    faults = []
    if not is_answered:
        faults.append("a client's first check was not answered within 0.5 s")
    if not during:
        faults.append("the flood was over before the newcomer's check")
    if answered and answered[-1] > 0.05:
        faults.append(f"a victim's check was answered after {answered[-1] * 1000:.0f} ms")
    rate = sent / scene.flood_seconds
    if scene.is_long and used > 0.2:
        faults.append(f"{used:.2f} of a core at {rate:.0f}/s")
    return Sent(
        sent, ["stun-integrity", "stun-rate-limited"], answers=3, received=received, faults=faults,
        note=f"a newcomer's first check {first * 1000:.1f} ms; {used * 100:.0f} % of a core at {rate / 1000:.0f}k/s; victims' checks {percentile(answered, 1) * 1000:.1f} ms")


async def burst(scene):
    """20,000 datagrams as fast as they go, of the length of a picture's packets"""
    payloads = [bytes([0x80, 96]) + os.urandom(1_100) for _ in range(512)]
    sent = await scene.flood(payloads, 20_000, rate=0)
    return Sent(sent, ["rtp-unknown-address"], answers=0, note=f"at {sent / scene.flood_seconds / 1000:.0f}k/s")


async def dtls_strangers(scene):
    """the ClientHello race and every hostile DTLS record from addresses without a check"""
    sent = await scene.flood(vectors.datagrams("dtls", wanted=lambda row: not row["name"].startswith("use-srtp")),
                             scene.count(1_000_000))
    return Sent(sent, ["dtls-unknown-address"], answers=0)


async def media_strangers(scene):
    """RTP and RTCP, right, broken, replayed or of another session, from strangers"""
    payloads = [one for file, listed in (
        ("rtp_packets", "cases"), ("rtp_packets", "drop"), ("rtcp_packets", "cases"), ("rtcp_packets", "drop"),
        ("rtcp_twcc", "drop"), ("srtp_packets", "cases"), ("srtp_packets", "drop")) for one in vectors.datagrams(file, listed)]
    payloads += vectors.seeds("rtp") + vectors.seeds("rtcp")
    sent = await scene.flood(payloads, scene.count(1_000_000))
    return Sent(sent, STRANGER, answers=0)


async def media_connections(scene):
    """500 connections to the media port's TCP side, which say nothing, half a frame, or no ICE"""
    ends, refused = [], 0
    for index in range(500):
        end = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        end.settimeout(0.5)
        end.bind(("127.0.0.74", 0))
        try:
            end.connect(scene.target)
            end.send((b"", b"\x00\x40half", b"\x00\x10GET / HTTP/1.1\r\n")[index % 3])
        except OSError:
            refused += 1
        ends.append(end)
    await asyncio.sleep(0.5)
    held = await asyncio.to_thread(scene.read_counters)
    until = time.monotonic() + 4
    while held.get("stream_connections", 0) == 0 and time.monotonic() < until:
        await asyncio.sleep(0.2)
        held = await asyncio.to_thread(scene.read_counters)
    count = held.get("stream_connections", 0)
    for end in ends:
        end.close()
    faults = [f"{count} connections of one source are held"] if count > 64 else []
    await asyncio.sleep(0.5)
    return Sent(500, note=f"{count} held at most 64", faults=faults)
