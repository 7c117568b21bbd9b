"""Attacks on handshakes: T30, T32–T37, T40. The victims' call runs beside them."""
import asyncio
import pathlib
import random
import struct
import time

import vectors
from guests import close
from peer import Peer
from relay import participant
from scene import RawSession, Sent
from wrtc_client import WrtcClient


async def hello_race(scene):
    """the null-cipher ClientHello 1,000 times a second, from before the API call until both sides are connected"""
    hello = vectors.named("dtls", "clienthello-null-cipher-race")
    calls, connected, slowest, faults = (100 if scene.is_long else 3), 0, 0.0, []
    race = asyncio.create_task(scene.flood([hello] * 64, calls * 1_000, rate=1_000))
    for _ in range(calls):
        room = scene.relay.create_room(kind="peer", media="audio")
        clients = [WrtcClient(scene.relay, room, uid, participant(room, uid)) for uid in ("ann", "ben")]
        try:
            await asyncio.gather(*(client.prepare() for client in clients))
            connected += 1
            slowest = max(slowest, *(client.connect_seconds for client in clients))
        except AssertionError as error:
            faults.append(str(error))
        for client in clients:
            await client.close()
        await asyncio.to_thread(scene.relay.admin, "DELETE", f"/v1/rooms/{room}")
    if slowest > 1:
        faults.append(f"the slowest took {slowest:.2f} s to connect")
    sent = await race
    # The goodbyes of clients whose room is gone count there, too.
    return Sent(sent, ["dtls-unknown-address"], answers=0, faults=faults, growth=4096, exact=False,
                note=f"{connected} of {calls} calls connect, slowest {slowest * 1000:.0f} ms")


async def hello_neighbours(scene):
    """the 16 hostile DTLS records from the client's own address, right behind its ClientHello, again and again"""
    records = vectors.datagrams("dtls", wanted=lambda row: not row["name"].startswith(("use-srtp", "clienthello")))
    faults, slowest, tries = [], 0.0, 100 if scene.is_long else 2
    for number in range(tries):
        room = await asyncio.to_thread(scene.relay.create_room, kind="peer", media="video")
        peer = Peer(scene.relay, room, f"mallory{number}")
        peer.beside_hello = list(records)
        began = time.monotonic()
        try:
            await peer.prepare()
        except AssertionError as error:
            faults.append(str(error))
        slowest = max(slowest, time.monotonic() - began)
        await close(scene, peer)
        await asyncio.to_thread(scene.relay.admin, "DELETE", f"/v1/rooms/{room}")
    return Sent(tries * len(records), note=f"{tries - len(faults)} of {tries} connect, slowest {slowest * 1000:.0f} ms", faults=faults,
                growth=8192)


async def handshake_memory(scene):
    """half-open handshakes, each fed 64 KB of fragments of messages that never end"""
    sessions = [await asyncio.to_thread(RawSession, scene, "127.0.0.71", f"raw{index}") for index in range(
        500 if scene.is_long else 60)]
    for session in sessions:
        session.socket.send(session.check())
    await asyncio.sleep(0.3)
    draw, sent = random.Random(7), 0
    for part in range(50):
        for session in sessions:
            # A piece of a message that says it has 2^24 - 1 bytes, at some place in it.
            body = draw.randbytes(1_200)
            message = b"\x01\xff\xff\xff\x00\x00" + struct.pack("!I", draw.randrange(1 << 23))[1:] + (1_200).to_bytes(3, "big") + body
            session.socket.send(b"\x16\xfe\xfd\x00\x00" + part.to_bytes(6, "big") + struct.pack("!H", len(message)) + message)
            sent += 1
        await asyncio.sleep(0.005)
    peak = max(scene.memory())
    for session in sessions:
        await asyncio.to_thread(session.close)
    faults = [f"{peak} KiB at the peak"] if peak > 200 * 1024 else []
    return Sent(sent, note=f"{len(sessions)} handshakes, {peak // 1024} MiB at the peak", faults=faults, growth=64 * len(sessions))


async def wrong_fingerprint(scene):
    """a client whose certificate is not the one of its offer"""
    faults = []
    room = scene.relay.create_room(kind="peer", media="video")
    peer = Peer(scene.relay, room, "mallory")

    def change(sdp):
        at = sdp.index("a=fingerprint:sha-256 ") + 22
        other = "0" if sdp[at] != "0" else "1"
        return sdp.replace(sdp[at:at + 95], other + sdp[at + 1:at + 95]).replace("a=fingerprint:sha-384", "a=x-384").replace(
            "a=fingerprint:sha-512", "a=x-512")

    await peer.post(change=change)
    left = await asyncio.to_thread(scene.relay.await_event, "participant.left", room, 12, uid="mallory")
    if left.get("reason") != "failed":
        faults.append(f"it left for {left.get('reason')}")
    await close(scene, peer)
    answer = scene.relay.ask(
        "POST", f"/v1/rooms/{scene.relay.create_room(kind='peer', media='video')}/sessions?state=prepared", "v=0\r\n", peer.bearer)
    if answer.status < 400:
        faults.append(f"an offer without a fingerprint is {answer.status}")
    return Sent(1, note=f"participant.left, {left.get('reason')}", faults=faults, growth=4096)


async def costly_certificate(scene):
    """a client certificate with an RSA key of 6,144 bits, whose signature costs a thousand times a usual one"""
    from aiortc.rtcdtlstransport import RTCCertificate, generate_certificate
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    key = load_pem_private_key((pathlib.Path(__file__).parent / "rsa6144.pem").read_bytes(), None)
    room = scene.relay.create_room(kind="peer", media="video")
    peer = Peer(scene.relay, room, "mallory")
    peer.certificate = RTCCertificate(key, generate_certificate(key))
    await peer.post()
    left = await asyncio.to_thread(scene.relay.await_event, "participant.left", room, 14, uid="mallory")
    faults = ["it was let in"] if peer.connected.is_set() else []
    await close(scene, peer)
    return Sent(1, note=f"participant.left, {left.get('reason')}", faults=faults, growth=4096)


async def no_protection(scene):
    """offers without DTLS-SRTP: RTP/AVP, RTP/SAVP, keys in the SDP, no fingerprint, SHA-1, passive"""
    faults, sent = [], 0
    changes = {
        "RTP/AVP": lambda sdp: sdp.replace("UDP/TLS/RTP/SAVPF", "RTP/AVP"),
        "RTP/SAVP": lambda sdp: sdp.replace("UDP/TLS/RTP/SAVPF", "RTP/SAVP"),
        "crypto": lambda sdp: sdp.replace("a=rtcp-mux\r\n", "a=rtcp-mux\r\na=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:" + "A" * 40 + "\r\n"),
        "no fingerprint": lambda sdp: "".join(line for line in sdp.splitlines(True) if not line.startswith("a=fingerprint")),
        "SHA-1": lambda sdp: sdp.replace("a=fingerprint:sha-256 ", "a=fingerprint:sha-1 "),
        "passive": lambda sdp: sdp.replace("a=setup:actpass", "a=setup:passive"),
    }
    for what, change in changes.items():
        sent += 1
        try:
            session = await asyncio.to_thread(RawSession, scene, change=change)
        except AssertionError as error:
            if not any(f"status {status} " in str(error) for status in (400, 406, 415, 422)):
                faults.append(f"{what}: {error}")
            continue
        session.close()
        faults.append(f"an offer with {what} was answered")
    return Sent(sent, note="all refused", faults=faults)


async def plaintext(scene):
    """records in clear, and the other hostile DTLS records, in the name of a connected victim"""
    payloads = vectors.datagrams("dtls", wanted=lambda row: not row["name"].startswith("use-srtp"))
    sent = await scene.flood(payloads, len(payloads) * 4, rate=60, sources=scene.victim()[0])
    state = await scene.victims.totals()
    faults = [f"DTLS is {totals['dtlsState']}" for totals in state if totals["dtlsState"] != "connected"]
    return Sent(sent, answers=0, faults=faults)
