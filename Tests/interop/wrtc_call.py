"""Calls between two wrtc (libwebrtc) clients: the plain call, loss, and the deaths of the relay's processes."""
import asyncio
import json
import os
import re
import signal
import socket
import time

from loss_proxy import LossProxy
from relay import ROOT, Follower, Relay, brief, check, check_end, check_order, participant
from wrtc_client import WrtcClient

# Both clients encode and decode on two shared cores: one that has to wait pauses its own picture, with no packet lost.
FREEZES = 2
# What a call tells beside its course: what is heard and seen, and, where this machine is slow, how well.
MEDIA_EVENTS = ("participant.media", "participant.quality")
TALK = 5.0


def clients(relay, room, warm=True, proxies=(None, None)):
    return [
        WrtcClient(relay, room, uid, participant(room, uid), warm, proxy)
        for uid, proxy in zip(("alice", "bob"), proxies)
    ]


async def call_up(relay, room, warm=True, proxies=(None, None)):
    """Two clients prepared, joined, seen and heard by each other."""
    alice, bob = clients(relay, room, warm, proxies)
    await asyncio.gather(alice.prepare(), bob.prepare())
    await alice.join()
    await bob.join()
    for client in (alice, bob):
        await client.until(lambda totals: totals["framesDecoded"] > 0 and totals["audioPackets"] > 0, 5, "media")
    return alice, bob


async def plain(relay, warm):
    room = relay.create_room(kind="peer", media="video")
    alice, bob = clients(relay, room, warm)
    follower = Follower(relay, room, bob.bearer)
    await asyncio.gather(alice.prepare(), bob.prepare())
    for client in (alice, bob):
        check(client.connect_seconds < 1, f"{client.uid} connected {client.connect_seconds:.2f} s after its POST")
        relay.await_event("participant.prepared", room, 2, uid=client.uid)
    # The gate: nothing passes while nobody has joined, and nothing while one alone has.
    await asyncio.sleep(0.7)
    await alice.join()
    await asyncio.sleep(0.7)
    for client in (alice, bob):
        totals = await client.totals()
        check(
            totals["audioPackets"] == totals["videoPackets"] == 0,
            f"{client.uid} received media through the closed gate: {totals}")
    await bob.join()
    joined = time.monotonic()
    waits = await asyncio.gather(*(
        client.until(lambda totals: totals["framesDecoded"] > 0, 3, "picture") for client in (alice, bob)))
    await asyncio.sleep(TALK - (time.monotonic() - joined))
    notes = []
    for client in (alice, bob):
        totals = await client.totals()
        check(totals["framesDecoded"] > TALK * 20 * 0.7, f"{client.uid} decoded too few frames: {totals}")
        check(totals["audioPackets"] > TALK * 50 * 0.8, f"{client.uid} received too little audio: {totals}")
        check(totals["audioEnergy"] > 0.01, f"{client.uid} heard silence: {totals}")
        check(totals["lost"] == 0, f"{client.uid} lost packets: {totals}")
        check(totals["freezeCount"] <= FREEZES, f"{client.uid} saw the picture freeze: {totals}")
        check("AEAD_AES_128_GCM" in totals["srtpCipher"], f"SRTP profile {totals['srtpCipher']}")
        notes.append(f"{client.uid}: {client.connect_seconds * 1000:.0f} ms to connect, {totals['framesDecoded']} frames")
    view = relay.room(room)
    check(view["status"] == "ongoing", f"the room is {view['status']} during the call")
    check([one["state"] for one in view["participants"]] == ["joined", "joined"], f"{view['participants']}")
    await alice.leave()
    relay.await_event("room.closed", room, 2)
    follower.check_ended(5)
    events = relay.events(room=room)
    check_order(relay.events())
    check_end(events, "alice", "bob")
    check(follower.events == events, f"the stream told {brief(follower.events)}, the log says {brief(events)}")
    types = [event["type"] for event in events if event["type"] not in MEDIA_EVENTS]
    check(
        types[0] == "room.created" and sorted(types[1:3]) == ["participant.connecting"] * 2
        and sorted(types[3:5]) == ["participant.prepared"] * 2 and types[5:7] == ["participant.joined"] * 2
        and types[7:] == ["participant.left", "participant.left", "room.closed"], f"the events are {types}")
    await bob.until(lambda totals: totals["dtlsState"] == "closed", 2, "close_notify")
    gone = await asyncio.to_thread(relay.ask, "POST", bob.location + "/join", None, bob.bearer)
    gone.expect(410)
    check(gone.json.get("outcome") == "ended", f"a join after the end is told {gone.json}")
    await asyncio.gather(alice.close(), bob.close())
    first = max(waits)
    return "; ".join(notes) + f"; first picture {first * 1000:.0f} ms after the join"


def wrtc_call():
    with Relay() as relay:
        return asyncio.run(plain(relay, warm=True))


def wrtc_call_null_tracks():
    with Relay() as relay:
        return asyncio.run(plain(relay, warm=False))


def wrtc_call_postquantum():
    """The ClientHello with an ML-KEM key share comes in two datagrams. The trial is in the environment (run.py)."""
    check("WebRTC-EnableDtlsPqc/Enabled/" in os.environ.get("WRTC_FIELD_TRIALS", ""), "the field trial is not set")
    return wrtc_call()


async def lossy(relay, loss):
    """The frames that each decodes in TALK seconds, with `loss` on both legs from before the join."""
    room = relay.create_room(kind="peer", media="video")
    target = relay.media.rsplit(":", 1)
    proxies = [LossProxy((target[0], int(target[1])), loss, seed) for seed in (7, 8)]
    alice, bob = clients(relay, room, proxies=proxies)
    await asyncio.gather(alice.prepare(), bob.prepare())
    await asyncio.gather(alice.join(), bob.join())
    await asyncio.gather(*(
        client.until(lambda totals: totals["framesDecoded"] > 0, 5, "picture") for client in (alice, bob)))
    for proxy in proxies:
        proxy.is_lossy = loss > 0
    before = [await client.totals() for client in (alice, bob)]
    await asyncio.sleep(8)
    after = [await client.totals() for client in (alice, bob)]
    frames = [now["framesDecoded"] - then["framesDecoded"] for then, now in zip(before, after)]
    details = [
        f"{frames[index]} frames, {now['freezeCount']} freezes, {now['nacks']} NACKs, {now['plis']} PLIs"
        for index, now in enumerate(after)]
    lost = sum(proxy.lost for proxy in proxies)
    await alice.leave()
    await asyncio.gather(alice.close(), bob.close())
    for proxy in proxies:
        proxy.stop()
    return frames, details, lost


def wrtc_call_loss():
    """5 % lost on all four ways of the two legs: retransmission keeps the picture."""
    with Relay() as relay:
        clean, _, _ = asyncio.run(lossy(relay, 0))
        rough, details, lost = asyncio.run(lossy(relay, 0.05))
    check(lost > 50, f"only {lost} datagrams were lost: the test is too easy")
    for good, bad in zip(clean, rough):
        check(bad > 0.8 * good, f"{bad} frames at 5 % loss, {good} without: {details}")
    return f"{lost} datagrams lost; clean {clean}, at 5 % {rough}; " + " | ".join(details)


async def recorded(relay):
    """A call with 8 % lost on both ways of alice's leg only; its record, read until it is complete."""
    room = relay.create_room(kind="peer", media="video")
    host, port = relay.media.rsplit(":", 1)
    proxy = LossProxy((host, int(port)), 0.08, seed=5)
    alice, bob = await call_up(relay, room, proxies=(proxy, None))
    proxy.is_lossy = True
    await asyncio.sleep(8)
    proxy.is_lossy = False
    await asyncio.sleep(2)
    await bob.leave()
    await asyncio.gather(alice.close(), bob.close())
    proxy.stop()
    until = time.monotonic() + 5
    while not (call := relay.admin("GET", f"/v1/calls/{room}").expect(200).json)["complete"]:
        check(time.monotonic() < until, f"the record is not completed: {call}")
        await asyncio.sleep(0.1)
    return call


def wrtc_call_record():
    """The record of a call says on which leg, and which way, packets were lost."""
    with Relay() as relay:
        call = asyncio.run(recorded(relay))
    check(call["outcome"] == "ended" and call["endedBy"]["uid"] == "bob", f"it ended as {call}")
    legs = {leg["uid"]: leg for leg in call["participants"]}
    notes = []
    for uid, bounds in (("alice", (3, 11)), ("bob", (0, 1))):
        leg = legs[uid]
        for way in ("uplink", "downlink"):
            percent = leg[way]["lossPercent"]
            check(bounds[0] <= percent <= bounds[1], f"{uid}'s {way} lost {percent} %: {leg}")
            check(leg[way]["packets"] > 500, f"{uid}'s {way} carried {leg[way]}")
            notes.append(f"{uid} {way} {percent} %")
        check("firstAudioAt" in leg and "firstVideoAt" in leg, f"{uid} sent no media: {leg}")
        check(0 < leg["roundTripMs"]["smallest"] <= leg["roundTripMs"]["mean"], f"{uid}'s round trips: {leg}")
    return "; ".join(notes)


def garbage():
    """Every byte string of the vectors that could come as a datagram: malformed, hostile, or right but of another session."""
    found = []
    for name in ("stun", "dtls", "demux", "fuzz_seeds", "rtp_packets", "rtcp_packets", "rtcp_twcc", "rtcp_ccfb", "srtp_packets"):
        lists = json.loads((ROOT / f"Tests/Fixtures/vectors/{name}.json").read_text())
        for rows in lists.values():
            for row in rows if isinstance(rows, list) else []:
                text = row.get("hex", row.get("protected")) if isinstance(row, dict) else None
                if isinstance(text, str):
                    found.append(bytes.fromhex(text)[:1472])
    return found


def drops(relay):
    """Dropped datagrams of the workers by reason, from the metrics: the engine's, and the handshaker's of DTLS."""
    text = relay.admin("GET", "/metrics").expect(200).body.decode()
    found = re.findall(
        r'^media_relay_worker_(?:drops_total\{worker="\d+",reason="([^"]+)"'
        r'|handshakes_total\{worker="\d+",event="((?:dropped|refused)[^"]+)")\} (\d+)$',
        text, re.MULTILINE)
    return {first or second: int(count) for first, second, count in found}


async def attacked(relay):
    room = relay.create_room(kind="peer", media="video")
    host, port = relay.media.rsplit(":", 1)
    target = (host, int(port))
    # Lossless: it is there because datagrams sent through it come from alice's own, validated address.
    proxy = LossProxy(target, 0, seed=1)
    alice, bob = await call_up(relay, room, proxies=(proxy, None))
    workers, before = relay.worker_pids(), drops(relay)
    stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    stranger.bind(("127.0.0.1", 0))
    stranger.setblocking(False)
    start = [(await client.totals())["framesDecoded"] for client in (alice, bob)]
    datagrams = garbage()
    for data in datagrams:
        for sender in (stranger, proxy.outside):
            sender.sendto(data, target)
        await asyncio.sleep(0.004)
    await asyncio.sleep(1.5)
    try:
        answer = stranger.recv(2048)
        raise AssertionError(f"a stranger's datagram was answered: {answer.hex()}")
    except BlockingIOError:
        pass
    check(relay.worker_pids() == workers, "the worker is another process now")
    for client, frames in zip((alice, bob), start):
        totals = await client.totals()
        check(totals["framesDecoded"] > frames + 30, f"{client.uid} decoded too few frames meanwhile: {totals}")
        check(totals["lost"] == 0 and totals["freezeCount"] <= FREEZES, f"{client.uid}'s call was harmed: {totals}")
    view = relay.room(room)
    check([one["state"] for one in view["participants"]] == ["joined", "joined"], f"{view['participants']}")
    counted, deadline = 0, time.monotonic() + 5
    while counted < 1.9 * len(datagrams) and time.monotonic() < deadline:
        # Workers tell their counters every few seconds.
        await asyncio.sleep(0.2)
        after = drops(relay)
        counted = sum(after.values()) - sum(before.values())
    print({reason: count for reason, count in after.items() if count})
    # Bytes that are well-formed DTLS records of another session only make the handshaker look; they alone may be uncounted.
    check(counted >= 1.9 * len(datagrams), f"{counted} drops were counted for {2 * len(datagrams)} datagrams: {after}")
    await alice.leave()
    relay.await_event("room.closed", room, 2)
    check_end(relay.events(room=room), "alice", "bob")
    await asyncio.gather(alice.close(), bob.close())
    proxy.stop()
    stranger.close()
    return f"{len(datagrams)} datagrams from a stranger and from a client's address, {counted} drops counted"


def hostile_datagrams():
    """What is malformed, forged or of another session gets no answer, is counted, and does no harm to a call."""
    with Relay() as relay:
        return asyncio.run(attacked(relay))


class Watch:
    """Notes when audio packets arrive, to find the longest gap."""

    def __init__(self, client):
        self.client, self.longest = client, 0.0
        self.task = asyncio.create_task(self.run())

    async def run(self):
        count, last = -1, time.monotonic()
        while True:
            now = (await self.client.totals())["audioPackets"]
            moment = time.monotonic()
            self.longest = max(self.longest, moment - last)
            if now > count:
                count, last = now, moment
            await asyncio.sleep(0.02)

    async def stop(self):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        return self.longest


async def control_killed(relay):
    room = relay.create_room(kind="peer", media="video")
    alice, bob = await call_up(relay, room)
    told = relay.events()
    watches = [Watch(alice), Watch(bob)]
    relay.kill_control()
    await asyncio.sleep(2)
    await asyncio.to_thread(relay.start)
    await asyncio.sleep(2)
    gaps = [await watch.stop() for watch in watches]
    check(max(gaps) < 0.5, f"the media paused for {max(gaps):.2f} s around the death of control")
    for client in (alice, bob):
        totals = await client.totals()
        check(totals["lost"] == 0, f"{client.uid} lost packets: {totals}")
    again = relay.events()
    check(again[:len(told)] == told, "events that were told before the kill are not there any more")
    check(again[len(told)]["type"] == "node.started", f"the log goes on with {brief(again[len(told):])}")
    view = relay.room(room)
    check(view["status"] == "ongoing", f"the room is {view['status']} after the restart")
    check([one["state"] for one in view["participants"]] == ["joined", "joined"], f"{view['participants']}")
    news = [event["type"] for event in again[len(told):] if event.get("roomId") == room]
    check(not [kind for kind in news if kind not in MEDIA_EVENTS], f"the room was told {news} for nothing")
    await alice.leave()
    relay.await_event("room.closed", room, 2)
    check_order(relay.events())
    check_end(relay.events(room=room), "alice", "bob")
    await asyncio.gather(alice.close(), bob.close())
    return f"longest pause of audio {max(gaps) * 1000:.0f} ms"


def control_kill():
    """SIGKILL to control during a call: media goes on, the room is adopted, the log continues."""
    with Relay() as relay:
        return asyncio.run(control_killed(relay))


async def hung_up_alone(relay):
    room = relay.create_room(kind="peer", media="video")
    alice, bob = await call_up(relay, room)
    relay.kill_control()
    killed = time.time()
    await alice.close()
    await bob.until(lambda totals: totals["dtlsState"] == "closed", 3, "close_notify while control is away")
    ended = time.time()
    await asyncio.sleep(1)
    await asyncio.to_thread(relay.start)
    relay.await_event("room.closed", room, 3)
    events = relay.events()
    check_order(events)
    check_end([event for event in events if event.get("roomId") == room], "alice", "bob")
    left = next(event for event in events if event["type"] == "participant.left")
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ended + 1))
    check(left["time"] < moment, f"the leave is dated {left['time']}, after the restart, not when it happened")
    await bob.close()
    return f"the other side stopped {(ended - killed) * 1000:.0f} ms after the kill"


def control_away_hangup():
    """A hang-up while control is dead ends the peer room for both; the restarted control tells it with its time."""
    with Relay() as relay:
        return asyncio.run(hung_up_alone(relay))


async def worker_killed(relay):
    room = relay.create_room(kind="peer", media="video")
    waiting = relay.create_room(kind="peer", media="video")
    alice, bob = await call_up(relay, room)
    (pid,) = relay.worker_pids()
    killed = time.monotonic()
    os.kill(pid, signal.SIGSEGV)
    closed = relay.await_event("room.closed", room, 2)
    seconds = time.monotonic() - killed
    check(seconds < 2, f"node-lost was told {seconds:.2f} s after the signal")
    check(closed["data"]["outcome"] == "node-lost", f"the outcome is {closed['data']}")
    lefts = [event for event in relay.events(room=room) if event["type"] == "participant.left"]
    check([event["reason"] for event in lefts] == ["node-lost"] * 2, f"the participants left: {brief(lefts)}")
    relay.wait_ready()
    check(relay.room(waiting)["status"] == "initiated", "a room that had not started was ended too")
    replacement = relay.worker_pids()
    check(len(replacement) == 1 and replacement[0] != pid, f"workers now: {replacement}")
    await asyncio.gather(alice.close(), bob.close())
    alice, bob = await call_up(relay, waiting)
    await alice.leave()
    relay.await_event("room.closed", waiting, 2)
    check_order(relay.events())
    await asyncio.gather(alice.close(), bob.close())
    return f"node-lost after {seconds * 1000:.0f} ms, a new call on the replacement"


def worker_segv():
    """SIGSEGV in the worker: its ongoing room ends as node-lost within 2 s, other rooms stay, a new worker takes calls."""
    with Relay() as relay:
        return asyncio.run(worker_killed(relay))
