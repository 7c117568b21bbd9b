"""Group calls with one offer each: who speaks is seen and heard on fixed slots, while people come and go."""
import asyncio
import contextlib
import os
import pathlib
import time

from browser import Page, chromium, open_tab
from relay import ROOT, Relay, check, check_order, participant
from wrtc_client import HEIGHT, RATE, WIDTH, WrtcClient

# What a plain picture of each colour is as Y, U, V, and what a page may then find as red, green, blue.
COLOURS = {"blue": ((80, 200, 90), 2), "red": ((80, 100, 210), 0)}


class Speaker(WrtcClient):
    """Sends one colour; its tone is silence until it speaks."""

    def __init__(self, *arguments, colour="blue", slots=(2, 1), **options):
        super().__init__(*arguments, **options)
        self.colour, self.is_speaking = colour, False
        self.slots = {"audio": slots[0], "video": slots[1]}

    def pictures(self):
        (luma, u, v), _channel = COLOURS[self.colour]
        chroma = bytes([u]) * (WIDTH // 2 * HEIGHT // 2) + bytes([v]) * (WIDTH // 2 * HEIGHT // 2)
        # Every frame a little different, so that each costs a packet.
        return [bytes([luma + step % 3]) * (WIDTH * HEIGHT) + chroma for step in range(RATE)]

    def tone(self):
        client, blocks = self, WrtcClient.tone()

        class Blocks:
            def __getitem__(self, index):
                return blocks[index] if client.is_speaking else bytes(len(blocks[index]))

        return Blocks()


def only(speakers, speaker):
    for one in speakers:
        one.is_speaking = one is speaker


def slots_of(relay, room, uid):
    """Who is in whose slots by the room's view: {kind: {uid, ...}}."""
    (member,) = [member for member in relay.room(room)["participants"] if member["uid"] == uid]
    found = {"audio": set(), "video": set()}
    for slot in member["slots"]:
        if slot["uid"]:
            found[slot["kind"]].add(slot["uid"])
    return found


def check_one_offer_each(relay, room, uids):
    events = relay.events(room=room)
    for uid in uids:
        offers = [event for event in events if event["type"] == "participant.connecting" and event["uid"] == uid]
        check(len(offers) == 1, f"{uid} made {len(offers)} sessions")
    check(not [event for event in events if event["type"] == "participant.replaced"], "a session was replaced")
    check_order(relay.events())
    return events


async def until(question, seconds, what):
    started = time.monotonic()
    while True:
        answer = await asyncio.to_thread(question)
        if answer:
            return time.monotonic() - started
        check(time.monotonic() - started < seconds, f"{what}: not within {seconds} s")
        await asyncio.sleep(0.05)


async def four_wrtc(relay):
    room = relay.create_room(id="four", kind="group", media="video")
    names = ["ada", "ben", "cleo", "dora"]
    people = [
        Speaker(relay, room, name, participant(room, name), colour="blue", slots=(1, 0)) for name in names]
    for person in people[:3]:
        await person.prepare("joined")
    ada, ben, cleo, dora = people
    only(people, ben)
    # Ada has one video slot: whoever speaks is in it, and the picture goes on.
    times = [await until(lambda: slots_of(relay, room, "ada")["video"] == {"ben"}, 5, "ben in ada's video slot")]
    await ada.until(lambda totals: totals["framesDecoded"] > 20, 10, "20 frames")
    only(people, cleo)
    times.append(await until(lambda: slots_of(relay, room, "ada")["video"] == {"cleo"}, 8, "cleo in ada's video slot"))
    await dora.prepare("joined")
    only(people, dora)
    times.append(await until(lambda: slots_of(relay, room, "ada")["video"] == {"dora"}, 8, "dora in ada's video slot"))
    await until(lambda: "dora" in slots_of(relay, room, "ada")["audio"], 5, "dora in an audio slot of ada")
    check(len(slots_of(relay, room, "ada")["audio"]) == 2, "ada has two audio slots, and both are in use")
    # A pin holds against the speaker.
    mid = next(
        slot["mid"] for member in relay.room(room)["participants"] if member["uid"] == "ada"
        for slot in member["slots"] if slot["kind"] == "video")
    wish = {"slots": [{"mid": mid, "uid": "ben", "height": 240}]}
    (await asyncio.to_thread(relay.ask, "PUT", ada.location + "/slots", wish, ada.bearer)).expect(200)
    await until(lambda: slots_of(relay, room, "ada")["video"] == {"ben"}, 5, "ben pinned")
    await asyncio.sleep(3)
    check(slots_of(relay, room, "ada")["video"] == {"ben"}, "the pin let go")
    (await asyncio.to_thread(relay.ask, "PUT", ada.location + "/slots", {"slots": []}, ada.bearer)).expect(200)
    await until(lambda: slots_of(relay, room, "ada")["video"] == {"dora"}, 5, "dora again")
    before = await ada.totals()
    await dora.leave()
    await until(lambda: slots_of(relay, room, "ada")["video"] not in ({"dora"}, set()), 5, "another in dora's place")
    await ada.until(lambda totals: totals["framesDecoded"] > before["framesDecoded"] + 20, 10, "pictures of another")
    totals = await ada.totals()
    check(totals["lost"] == 0, f"the slots have gaps: {totals}")
    check(totals["freezeCount"] <= 3, f"the picture froze: {totals}")
    events = check_one_offer_each(relay, room, names)
    speakers = [event["uid"] for event in events if event["type"] == "speaker.changed"]
    check(speakers[:3] == ["ben", "cleo", "dora"], f"the speakers were {speakers}")
    for person in people:
        await person.close()
    changes = sum(event["type"] == "slot.changed" for event in events)
    return (
        f"speaker seen after {', '.join(f'{seconds:.1f}' for seconds in times)} s; {changes} slot changes, "
        f"{totals['framesDecoded']} frames, {totals['keyFramesDecoded']} key frames, {totals['freezeCount']} freezes")


def group_wrtc():
    with Relay() as relay:
        return asyncio.run(four_wrtc(relay))


def shows(page, name, colour=None, speaking=None):
    """Whether a tile shows `name`, in that colour, and highlighted or not."""
    for tile in page.evaluate("groupCall.look()")["tiles"]:
        if tile["uid"] != name:
            continue
        if speaking is not None and tile["isSpeaking"] != speaking:
            return False
        if colour is None:
            return True
        strongest = COLOURS[colour][1]
        found = tile["colour"]
        return found is not None and all(
            found[strongest] > found[channel] + 30 for channel in range(3) if channel != strongest)
    return False


async def tabs_and_wrtc(relay, pages, room):
    def speaker(name, colour):
        session = relay.demo_session("team", name, "group")
        check(session["room"] == room, f"{name} would be in {session['room']}")
        return Speaker(relay, room, name, session["token"], colour=colour)

    ada, grace = pages
    wren = speaker("wren", "blue")
    await wren.prepare("joined")
    only([wren], wren)
    # One tile: the speaker's picture in it, highlighted.
    times = [await until(lambda: shows(ada, "wren", "blue", True), 10, "wren's picture on Ada's page")]
    await until(lambda: shows(grace, "wren", "blue", True), 5, "wren's picture on Grace's page")
    await until(lambda: shows(grace, "Ada"), 5, "Ada on Grace's page")
    finn = speaker("finn", "red")
    await finn.prepare("joined")
    await until(lambda: "finn" in ada.evaluate("groupCall.look()")["people"], 5, "finn among Ada's people")
    await until(lambda: shows(grace, "finn", "red", False), 10, "the latecomer's picture on Grace's page")
    check(shows(ada, "wren", "blue", True), "the latecomer took the speaker's tile")
    only([wren, finn], finn)
    times.append(await until(lambda: shows(ada, "finn", "red", True), 10, "finn's picture on Ada's page"))
    check(not shows(ada, "wren"), "one tile shows two")
    # By hand: a pin holds against the speaker.
    ada.evaluate("document.querySelector('.tile[data-mid]:not([hidden]) button').click()")
    only([wren, finn], wren)
    await until(lambda: ada.evaluate("groupCall.look()")["speaker"] == "wren", 10, "wren has the floor")
    await asyncio.sleep(2.5)
    check(shows(ada, "finn", "red", False), f"the pin let go: {ada.evaluate('groupCall.look()')}")
    ada.evaluate("document.querySelector('.tile[data-mid]:not([hidden]) button').click()")
    times.append(await until(lambda: shows(ada, "wren", "blue", True), 10, "wren's picture after the pin"))
    target = pathlib.Path(os.environ.get("CALL_PICTURE") or ROOT / "bench/out/call.png").with_name("group.png")
    grace.picture(target)
    check(target.stat().st_size > 20_000, "the picture of the page is empty")
    figures = ada.evaluate("groupCall.totals()", wait=True)
    await finn.leave()
    await until(lambda: not shows(grace, "finn"), 5, "finn's tile goes")
    check("finn" not in grace.evaluate("groupCall.look()")["people"], "finn is still among the people")
    await wren.leave()
    await until(lambda: shows(ada, "Grace"), 10, "Grace's picture on Ada's page when the others are gone")
    for person in (wren, finn):
        await person.close()
    return times, figures


def group_page():
    """Two tabs and two wrtc clients; each page's events and pictures, the colours read from the decoded video."""
    with Relay() as relay:
        address = f"http://{relay.http}/group.html?auto=1&muted=1&room=team&voices=2"
        with contextlib.ExitStack() as stack:
            stack.enter_context(chromium(address + "&name=Ada&tiles=1"))
            open_tab(address + "&name=Grace&tiles=4")
            pages = [Page("name=Ada"), Page("name=Grace")]
            for page in pages:
                page.until("globalThis.groupCall?.look().phase === 'joined'", 30, "group call")
            room = relay.demo_session("team", "nobody", "group")["room"]
            times, figures = asyncio.run(tabs_and_wrtc(relay, pages, room))
            for page in pages:
                look = page.evaluate("groupCall.look()")
                check(look["offers"] == 1 and look["problem"] == "", f"{look}")
                page.evaluate("groupCall.leave()", wait=True)
                page.close()
        check_one_offer_each(relay, room, ["Ada", "Grace", "wren", "finn"])
        check(figures["videoPacketsLost"] == 0, f"the slot has gaps: {figures}")
        check(figures["freezeCount"] <= 3, f"the picture froze: {figures}")
        return (
            f"speaker shown after {', '.join(f'{seconds:.1f}' for seconds in times)} s; Ada: "
            f"{figures['framesDecoded']} frames, {figures['keyFramesDecoded']} key frames, {figures['freezeCount']} "
            f"freezes")
