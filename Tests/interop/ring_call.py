"""The ring: a real call that rings, is answered and ends, and every outcome that needs no media."""
import asyncio
import time

from relay import Follower, Relay, brief, check, participant
from wrtc_client import WrtcClient


def ring(relay, **more):
    """A room in which alice rings bob."""
    return relay.create_room(
        kind="peer", media="video", ring={"caller": "alice", "callees": ["bob"], "callerName": "Alice A.", **more})


def end(relay, room, uid, status):
    return relay.ask("POST", f"/v1/rooms/{room}/end", {"status": status}, participant(room, uid))


def types(events):
    return [event["type"] for event in events if event["type"] not in ("participant.media", "participant.quality")]


async def answered(relay):
    room = ring(relay)
    alice = WrtcClient(relay, room, "alice", participant(room, "alice"), warm=True)
    bob = WrtcClient(relay, room, "bob", participant(room, "bob"), warm=False)
    follower = Follower(relay, room, alice.bearer)
    # The caller joins in the turn that decides the answer: its media need not wait for one more round trip.
    await alice.prepare("prepared&join=on-answer")
    relay.ask("POST", f"/v1/rooms/{room}/ringing", None, bob.bearer).expect(200)
    relay.await_event("call.ringing", room, 2, uid="bob")
    await bob.prepare()
    totals = await alice.totals()
    check(totals["audioPackets"] == 0, f"media passed before the answer: {totals}")
    asked = time.monotonic()
    await bob.join()
    for client in (alice, bob):
        await client.until(lambda totals: totals["framesDecoded"] > 0 and totals["audioPackets"] > 0, 5, "media")
    first = time.monotonic() - asked
    await asyncio.sleep(2)
    await alice.leave()
    relay.await_event("room.closed", room, 2)
    follower.check_ended(5)
    events = relay.events(room=room)
    told = types(events)
    check(told[:2] == ["room.created", "call.initiated"], f"the call began with {told[:2]}")
    check(told.count("call.ringing") == 1, f"it rang {told.count('call.ringing')} times")
    answer = told.index("call.answered")
    check(sorted(told[answer + 1:answer + 3]) == ["participant.joined"] * 2, f"behind the answer came {told[answer:]}")
    check(
        told[-4:] == ["call.ended", "participant.left", "participant.left", "room.closed"], f"the end was {told[-4:]}")
    ended = next(event for event in events if event["type"] == "call.ended")
    check(ended["data"].get("outcome") == "ended", f"the outcome is {ended}")
    check(follower.events == events, f"the caller's stream told {brief(follower.events)}, the log {brief(events)}")
    await asyncio.gather(alice.close(), bob.close())
    return f"media both ways {first * 1000:.0f} ms after the answer; {len(events)} events"


def ring_answered():
    with Relay() as relay:
        return asyncio.run(answered(relay))


def ring_outcomes():
    """Who says what, and the outcome that the caller is told, once, whether or not a device was ever reached."""
    with Relay() as relay:
        def outcome(room, expected, seconds=2):
            relay.await_event("call.ended", room, seconds)
            found = [event for event in relay.events(room=room) if event["type"] == "call.ended"]
            check(len(found) == 1, f"{expected}: {len(found)} ends were told")
            check(found[0]["data"].get("outcome") == expected, f"{expected}: the end is {found[0]}")
            view = relay.room(room)
            check(view["status"] == "ended" and view["outcome"] == expected, f"{expected}: the room is {view}")

        for status in ("rejected", "busy"):
            room = ring(relay)
            end(relay, room, "bob", status).expect(200)
            outcome(room, status)
            late = relay.ask("POST", f"/v1/rooms/{room}/answer", None, participant(room, "bob")).expect(410)
            check(late.json["outcome"] == status, f"a late answer is told {late.json}")
        room = ring(relay)
        end(relay, room, "bob", "cancelled").expect(403)
        end(relay, room, "alice", "cancelled").expect(200)
        outcome(room, "cancelled")
        room = ring(relay, windowMs=1000)
        outcome(room, "unreachable", 4)
        room = ring(relay, windowMs=1000)
        relay.ask("POST", f"/v1/rooms/{room}/ringing", None, participant(room, "bob")).expect(200)
        outcome(room, "unanswered", 4)
        itself = {"kind": "peer", "ring": {"caller": "alice", "callees": ["alice"]}}
        refused = relay.admin("POST", "/v1/rooms", itself).expect(400)
        check(refused.json["code"] == "calling-self", f"calling oneself is {refused.json}")
        return "rejected, busy, cancelled, unreachable, unanswered, calling-self"
