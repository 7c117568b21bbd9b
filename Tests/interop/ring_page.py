"""The ringing page of examples/signaling in real browsers: clicks, what both sides read, what the relay tells.

A picture of each outcome goes to bench/out/ring/.
"""
import time

from relay import check, check_order
from ring_scene import SESSION, Scene


def restarted(tab):
    """An ICE restart in the middle of a call: new credentials on both sides, and media goes on."""
    names = f"{SESSION}.connection.{{side}}Description.sdp.match(/ice-ufrag:(\\S+)/)[1]"
    both = f"[{names.format(side='local')}, {names.format(side='remote')}].join()"
    before = tab.evaluate(both)
    tab.evaluate(f"{SESSION}.restart()", wait=True)
    after = tab.evaluate(both)
    check(not set(before.split(",")) & set(after.split(",")), f"the credentials went from {before} to {after}")
    packets = f"{SESSION}.totals().then((t) => t.audioPacketsReceived + t.framesSent)"
    count = tab.evaluate(packets, wait=True)
    time.sleep(1.5)
    grown = tab.evaluate(packets, wait=True) - count
    check(grown > 50, f"after the restart {tab.key} received and sent only {grown} packets and frames")
    state = tab.evaluate(f"{SESSION}.connection.connectionState")
    check(state == "connected", f"after the restart {tab.key} is {state}")


def pictures(name, **tabs):
    for side, tab in tabs.items():
        tab.picture(f"{name}-{side}")


def ring_page_outcomes():
    """Declined, busy, cancelled, rung out, unreachable."""
    with Scene("alice", "bob", window=6000) as scene:
        alice, bob = scene.tabs
        for button, outcome, words in (("decline", "rejected", "bob declined."), ("busy", "busy", "bob is busy.")):
            room = scene.rings(alice, bob)
            if button == "decline":
                pictures("ringing", caller=alice, callee=bob)
                bob.click(button)
            else:
                bob.by_keys("answer", "decline", "busy")
            alice.reads("headline", words)
            bob.until("!document.getElementById('ring').open", 3, "end of the ring")
            scene.ended(room, outcome)
            pictures(outcome, caller=alice, callee=bob)
            alice.click("done")
        room = scene.rings(alice, bob, "video")
        pictures("ringing-video", caller=alice, callee=bob)
        bob.picture("ringing-phone", width=390, height=844, dark=True)
        alice.click("hang-up")
        alice.reads("headline", "You cancelled the call.")
        bob.reads("notice", "Missed call from alice.")
        check(bob.is_silent(), "bob's tab rings on after the cancel")
        scene.ended(room, "cancelled")
        pictures("cancelled", caller=alice, callee=bob)
        alice.click("again")
        bob.reads("ring-name", "alice")
        room = scene.room()
        alice.reads("headline", "No answer.", 8)
        bob.reads("notice", "Missed call from alice.")
        scene.ended(room, "unanswered")
        pictures("unanswered", caller=alice, callee=bob)
        alice.click("done")
        alice.evaluate("document.getElementById('to').value = 'dora'")
        alice.click("to-video")
        alice.reads("headline", "Calling dora…")
        room = scene.room()
        alice.reads("headline", "dora could not be reached.", 8)
        scene.ended(room, "unreachable")
        pictures("unreachable", caller=alice)
        check("push to dora's phone: " in scene.server.log(), f"no push is logged: {scene.server.log()}")
        alice.click("done")
        # Both call each other in the same moment: the relay makes one call of it.
        for tab, callee in ((alice, "bob"), (bob, "alice")):
            tab.evaluate(f"document.getElementById('call-{callee}-audio').click()")
        scene.talk(alice, bob, 1.2)
        alice.click("hang-up")
        bob.reads("headline", "alice hung up.")
        scene.ended(scene.room(), "ended")
        check_order(scene.relay.events())
        return "rejected, busy, cancelled, unanswered, unreachable, glare"


def ring_page_calls():
    """Answered and hung up by each side, answered on another device, a second call during a call."""
    with Scene("alice", "bob", "bob", "carol") as scene:
        alice, bob, tablet, carol = scene.tabs
        room = scene.rings(alice, bob, "video")
        tablet.reads("ring-name", "alice")
        bob.click("answer")
        scene.talk(alice, bob)
        tablet.reads("notice", "alice: answered on another device.")
        check(tablet.is_silent(), "the other tab rings on")
        for tab in (alice, bob):
            tab.ask("Page.bringToFront")
            tab.until("document.getElementById('screen').classList.contains('has-picture')", 8, f"picture in {tab.key}")
        pictures("answered", caller=alice, callee=bob, elsewhere=tablet)
        alice.picture("answered-phone", width=390, height=844, dark=True)
        check(alice.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than a phone")
        restarted(bob)
        # The signaling server is started anew in the middle of the call: the call goes on, and its end is told.
        scene.server.__exit__(None, None, None)
        for tab in scene.tabs:
            tab.reads("line-words", "reconnecting…")
        scene.server.__enter__()
        for tab in scene.tabs:
            tab.reads("line-words", "online", 10)
        check(bob.evaluate("window.pageCall().state") == "connected", "the call ended with the signaling server")
        bob.click("hang-up")
        bob.reads("headline", "You hung up.")
        alice.reads("headline", "bob hung up.")
        end = scene.ended(room, "ended")
        check(end["data"]["by"] == "bob" and end["data"]["durationMs"] > 1000, f"the end is {end}")
        pictures("hung-up-by-callee", caller=alice, callee=bob)
        alice.click("done")
        bob.click("done")

        room = scene.rings(alice, tablet)
        tablet.click("answer")
        scene.talk(alice, tablet)
        # Somebody else calls: first busy, then declined, then accepted.
        for button, outcome, words in (("busy", "busy", "alice is busy."), ("decline", "rejected", "alice declined.")):
            carol.click("call-alice-audio")
            alice.reads("ring-kind", "Audio call waiting")
            second = scene.room()
            if button == "busy":
                pictures("call-waiting", callee=alice)
                alice.picture("call-waiting-phone", width=390, height=844)
            alice.click(button)
            carol.reads("headline", words)
            scene.ended(second, outcome)
            carol.click("done")
            scene.talk(alice, tablet, 0.1)
        carol.click("call-alice-video")
        alice.reads("answer", "End & Accept")
        second = scene.room()
        alice.click("answer")
        scene.talk(alice, carol)
        check(scene.ended(room, "ended")["data"]["by"] == "alice", "the first call was not ended by alice")
        tablet.reads("headline", "alice hung up.")
        pictures("end-and-accept", first=tablet, accepter=alice, second=carol)
        carol.click("hang-up")
        carol.reads("headline", "You hung up.")
        alice.reads("headline", "carol hung up.")
        scene.ended(second, "ended")
        pictures("hung-up-by-caller", caller=carol, callee=alice)
        check_order(scene.relay.events())
        return "answered, elsewhere, hung up by callee and caller, waiting: busy, declined, end & accept"


def ring_page_media():
    """Mute, hold, and an audio call that becomes a video call: declined first, then accepted."""
    with Scene("alice", "bob") as scene:
        alice, bob = scene.tabs
        room = scene.rings(alice, bob)
        bob.click("answer")
        scene.talk(alice, bob)
        alice.click("mute")
        alice.reads("mute", "Unmute")
        bob.reads("with", "alice · muted")
        scene.relay.await_event("participant.changed", room, 2, uid="alice")
        alice.click("mute")
        bob.reads("with", "alice")
        bob.click("hold")
        alice.reads("overlay", "bob holds the call.")
        bob.reads("overlay", "You hold the call.")
        pictures("held", caller=alice, callee=bob)
        bob.click("hold")
        alice.until("!document.getElementById('overlay').checkVisibility()", 3, "end of the hold")
        alice.click("add-video")
        bob.reads("wish-words", "alice would like to see you.")
        pictures("video-asked", caller=alice, callee=bob)
        bob.click("decline-video")
        bob.until("!document.getElementById('wish').checkVisibility()", 3, "end of the wish")
        alice.reads("overlay", "bob stays with audio.")
        check(alice.evaluate("window.pageCall().tracks('video').length") == 0, "alice's camera stays open")
        alice.click("add-video")
        bob.click("accept-video")
        for tab in (alice, bob):
            tab.ask("Page.bringToFront")
            tab.until("document.getElementById('screen').classList.contains('has-picture')", 8, f"picture in {tab.key}")
        pictures("became-video", caller=alice, callee=bob)
        bob.click("hang-up")
        alice.reads("headline", "bob hung up.")
        scene.ended(room, "ended")
        check_order(scene.relay.events())
        return "muted, held, video declined, video accepted"
