"""The ringing page of examples/signaling in real browsers: clicks, what both sides read, what the relay tells.

A picture of each outcome goes to bench/out/ring/.
"""
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients/python"))

from browser import DIRECT, Page, chromium, open_tab
from relay import KEY_ID, ROOT, SECRET, Relay, check, check_order

PICTURES = pathlib.Path(os.environ.get("RING_PICTURES") or ROOT / "bench/out/ring")
# Of the call on a page's stage.
SESSION = "window.pageCall().session"
ADDRESS = "127.0.0.1:8090"


class SignalingServer:
    """The example's server, started as `make run` does, on a relay of the test."""

    def __init__(self, relay, *options, address=ADDRESS):
        self.address = address
        self.command = [
            sys.executable, str(ROOT / "examples/signaling/server.py"), "--relay", f"http://{relay.http}",
            "--key", f"{KEY_ID}:{SECRET}", "--listen", address, *options]
        self.log_path = os.path.join(relay.folder, "signaling.log")

    def __enter__(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while True:
            check(self.process.poll() is None, f"the signaling server ended: {self.log()}")
            try:
                return DIRECT.open(f"http://{self.address}/", timeout=5).close() or self
            except OSError as error:
                check(time.monotonic() < deadline, f"the signaling server does not answer: {error}")
                time.sleep(0.05)

    def __exit__(self, kind, _error, _trace):
        self.process.terminate()
        self.process.wait(10)
        if kind is not None:
            print(f"--- the signaling server's log ---\n{self.log()[-4000:]}", flush=True)

    def log(self):
        return pathlib.Path(self.log_path).read_text(errors="replace")


class Tab(Page):
    """One tab of the page, used as a person would: looks at texts, clicks on buttons that can be seen."""

    def __init__(self, name, index=1):
        self.name, self.key = name, f"name={name}&tab={index}"
        super().__init__(self.key)
        self.until("document.readyState === 'complete' && document.getElementById('name')?.value", 20, "page")

    def text(self, element):
        return self.evaluate(f"document.getElementById('{element}').textContent")

    def reads(self, element, text, seconds=5):
        """Waits until the element is seen and says this."""
        deadline = time.monotonic() + seconds
        shown = f"(e => e.checkVisibility() ? e.textContent : null)(document.getElementById('{element}'))"
        while (found := self.evaluate(shown)) != text:
            check(
                time.monotonic() < deadline,
                f"{self.key}: {element} reads {found!r}, not {text!r}, after {seconds} s; "
                f"the problem is {self.text('problem')!r}")
            time.sleep(0.02)

    def click(self, element, seconds=5):
        """A click with the mouse, in the middle of what can be seen and is on top there."""
        self.ask("Page.bringToFront")
        where = f"""(e => {{
            if (!e || e.disabled || !e.checkVisibility()) return null;
            e.scrollIntoView({{block: 'center'}});
            const box = e.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2;
            return e.contains(document.elementFromPoint(x, y)) ? [x, y] : null;
        }})(document.getElementById('{element}'))"""
        self.until(f"{where} !== null", seconds, f"button {element} to click on in {self.key}")
        x, y = self.evaluate(where)
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def by_keys(self, *way):
        """From the element that has the focus, by Tab to the last one; then Enter."""
        self.ask("Page.bringToFront")
        for element in way:
            self.until(f"document.activeElement?.id === '{element}'", 3, f"focus on {element}")
            if element != way[-1]:
                self.press("Tab")
        self.press("Enter")

    def log_in(self):
        self.click("go-online")
        self.reads("own-name", self.name)

    def picture(self, name, **options):
        self.evaluate("scrollTo(0, 0)")
        super().picture(PICTURES / f"{name}.png", **{"width": 1000, "height": 800, **options})

    def is_silent(self):
        return self.evaluate("!document.getElementById('ring').open")


class Scene:
    """Relay, signaling server, browser and tabs for one test."""

    def __init__(self, *names, window=45_000):
        self.names, self.window, self.calls = names, window, 0

    def __enter__(self):
        self.relay = Relay().__enter__()
        try:
            self.server = SignalingServer(self.relay, "--window-ms", str(self.window)).__enter__()
            addresses = [
                f"http://{ADDRESS}/?name={name}&tab={self.names[:place].count(name) + 1}"
                for place, name in enumerate(self.names)]
            self.browser = chromium(addresses[0])
            for address in addresses[1:]:
                open_tab(address)
            self.tabs = [
                Tab(name, self.names[:place].count(name) + 1) for place, name in enumerate(self.names)]
            for tab in self.tabs:
                tab.log_in()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, *error):
        for tab in getattr(self, "tabs", []):
            tab.close()
        for part in ("browser", "server", "relay"):
            if hasattr(self, part):
                getattr(self, part).__exit__(*error)

    def room(self, seconds=5):
        """The room of the call that has just been made."""
        deadline = time.monotonic() + seconds
        while True:
            rooms = [event["roomId"] for event in self.relay.events() if event["type"] == "call.initiated"]
            if len(rooms) > self.calls:
                self.calls += 1
                check(len(rooms) == self.calls, f"{len(rooms)} calls were made instead of {self.calls}")
                return rooms[-1]
            check(time.monotonic() < deadline, f"no further call within {seconds} s")
            time.sleep(0.02)

    def ended(self, room, outcome, seconds=3):
        """The relay told this outcome, once."""
        self.relay.await_event("call.ended", room, seconds)
        ends = [event for event in self.relay.events(room=room) if event["type"] == "call.ended"]
        check(len(ends) == 1, f"{outcome}: {len(ends)} ends were told")
        check(ends[0]["data"]["outcome"] == outcome, f"the end is {ends[0]}, not {outcome}")
        return ends[0]

    def rings(self, caller, callee, media="audio"):
        """The caller calls; the callee's tab rings with the caller's name."""
        caller.click(f"call-{callee.name}-{media}")
        callee.reads("ring-name", caller.name)
        callee.reads("ring-kind", f"{media.capitalize()} call")
        caller.reads("headline", "Ringing…")
        return self.room()

    def talk(self, first, second, seconds=1.2):
        """Both are connected, have a timer, and hear each other."""
        for tab in (first, second):
            tab.until("document.getElementById('timer').checkVisibility()", 8, f"call in {tab.key}")
        time.sleep(seconds)
        for tab in (first, second):
            check(tab.text("timer") != "0:00", f"{tab.key}: the timer reads {tab.text('timer')}")
            # The microphone opens at the answer. The browser's fake one is silent where there is no fake camera to
            # beep.
            heard = "t.totalAudioEnergy > 0" if tab.evaluate("window.pageCall().media") == "video" else "true"
            deadline = time.monotonic() + 5
            while not tab.evaluate(
                    f"{SESSION}.totals().then((t) => t.audioPacketsReceived > 20 && {heard})", wait=True):
                check(time.monotonic() < deadline, f"{tab.key} hears nothing")
                time.sleep(0.1)


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
