"""Media within a call, between real clients: audio becomes video, mute, hold, the server's mute, the early key frame."""
import asyncio

from relay import Relay, check, participant
from wrtc_client import WrtcClient


async def ask(relay, method, path, body, bearer=None):
    """As the client with this token, or as the server."""
    if bearer:
        return await asyncio.to_thread(relay.ask, method, path, body, bearer)
    return await asyncio.to_thread(relay.admin, method, path, body)


async def grows(client, name, seconds=3):
    """Waits until more of it has come than is there now."""
    before = (await client.totals())[name]
    return await client.until(lambda totals: totals[name] > before + 5, seconds, f"more {name}")


async def stands(client, name, seconds=0.7):
    """Whether none of it comes, once what is under way has arrived."""
    await asyncio.sleep(0.3)
    before = (await client.totals())[name]
    await asyncio.sleep(seconds)
    after = (await client.totals())[name]
    check(after == before, f"{client.uid}: {after - before} more {name} came")


async def within_a_call(relay):
    room = relay.create_room(kind="peer", media="audio")
    alice = WrtcClient(relay, room, "alice", participant(room, "alice"))
    bob = WrtcClient(relay, room, "bob", participant(room, "bob"), warm=False)
    await asyncio.gather(alice.prepare(), bob.prepare())
    await alice.join()
    await bob.join()
    for client in (alice, bob):
        await client.until(lambda totals: totals["audioPackets"] > 0, 5, "sound")
        await stands(client, "videoPackets")
    (await ask(relay, "POST", f"/v1/rooms/{room}/media", {"video": "request"}, alice.bearer)).expect(200)
    await stands(bob, "videoPackets", 0.3)
    view = (await ask(relay, "POST", f"/v1/rooms/{room}/media", {"video": "accept"}, bob.bearer)).expect(200).json
    check(view["media"] == "video" and "videoRequest" not in view, f"the room is {view}")
    waits = await asyncio.gather(*(
        client.until(lambda totals: totals["framesDecoded"] > 0, 3, "picture") for client in (alice, bob)))

    async def say(client, body, **told):
        answer = (await ask(relay, "PATCH", client.location, body, client.bearer)).expect(200).json
        check(all(answer[name] == value for name, value in told.items()), f"{body} gives {answer}")

    await say(alice, {"audio": "muted"}, audio="muted", video="on", held=False)
    await asyncio.gather(stands(bob, "audioPackets"), grows(bob, "framesDecoded"), grows(alice, "audioPackets"))
    await say(alice, {"audio": "on", "video": "muted"}, audio="on", video="muted")
    await asyncio.gather(stands(bob, "framesDecoded"), grows(bob, "audioPackets"))
    await say(alice, {"video": "on"}, video="on")
    picture = await grows(bob, "framesDecoded")
    await say(bob, {"held": True}, held=True)
    await asyncio.gather(*(stands(client, name) for client in (alice, bob) for name in ("audioPackets", "framesDecoded")))
    await say(bob, {"held": False}, held=False)
    await asyncio.gather(*(grows(client, name) for client in (alice, bob) for name in ("audioPackets", "framesDecoded")))
    path = f"/v1/rooms/{room}/participants/{bob.location.rsplit('/', 1)[1]}"
    muted = (await ask(relay, "PATCH", path, {"audio": "muted"})).expect(200).json
    check(muted["mutedByServer"] == ["audio"], f"the server's mute gives {muted}")
    await say(bob, {"audio": "on"}, audio="muted", mutedByServer=["audio"])
    await stands(alice, "audioPackets")
    (await ask(relay, "PATCH", path, {"audio": "on"})).expect(200)
    await grows(alice, "audioPackets")
    (await ask(relay, "PATCH", path, {"audio": "off"})).expect(400)
    (await ask(relay, "PATCH", alice.location, {"audio": "muted"}, bob.bearer)).expect(404)
    for client in (alice, bob):
        totals = await client.totals()
        check(totals["lost"] == 0, f"{client.uid} lost packets over the pauses: {totals}")
    await alice.leave()
    relay.await_event("room.closed", room, 2)
    told = [event for event in relay.events(room=room) if event["type"] in (
        "media.requested", "media.changed", "participant.changed")]
    words = [(event["type"], event["uid"], event["data"].get("by") or event.get("reason")) for event in told]
    changed = "participant.changed"
    check(words == [
        ("media.requested", "alice", None), ("media.changed", "bob", "accepted"), (changed, "alice", "self"),
        (changed, "alice", "self"), (changed, "alice", "self"), (changed, "bob", "self"), (changed, "bob", "self"),
        (changed, "bob", "server"), (changed, "bob", "server")], f"the events are {words}")
    await asyncio.gather(alice.close(), bob.close())
    return f"picture {max(waits) * 1000:.0f} ms after the acceptance, {picture * 1000:.0f} ms after the unmute"


def media_within_a_call():
    with Relay() as relay:
        return asyncio.run(within_a_call(relay))


async def early(relay):
    room = relay.create_room(kind="peer", media="video", ring={"caller": "alice", "callees": ["bob"]})
    alice = WrtcClient(relay, room, "alice", participant(room, "alice"))
    bob = WrtcClient(relay, room, "bob", participant(room, "bob"))
    await alice.prepare("prepared&join=on-answer&earlyKeyFrame=1")
    refused = await asyncio.to_thread(
        relay.ask, "POST", f"/v1/rooms/{room}/sessions?state=prepared&earlyKeyFrame=1", "v=0", bob.bearer,
        {"Content-Type": "application/sdp"})
    refused.expect(400)
    await bob.prepare()
    # The encoder's first seconds are slow; then a key frame is asked for every 700 ms.
    await asyncio.sleep(3)
    await stands(bob, "videoPackets", 0.3)
    await bob.join()
    first = await bob.until(lambda totals: totals["framesDecoded"] > 0, 2, "picture")
    await bob.until(lambda totals: totals["keyFramesDecoded"] > 1, 3, "second key frame")
    before = await bob.totals()
    await asyncio.sleep(3)
    after = await bob.totals()
    frames = after["framesDecoded"] - before["framesDecoded"]
    check(frames > 3 * 20 * 0.7, f"bob decoded {frames} frames in 3 s: {after}")
    check(after["lost"] == 0 and after["keyFramesDecoded"] == before["keyFramesDecoded"], f"{before} became {after}")
    await alice.leave()
    await asyncio.gather(alice.close(), bob.close())
    return f"picture {first * 1000:.0f} ms after the join"


def early_key_frame():
    with Relay() as relay:
        return asyncio.run(early(relay))
