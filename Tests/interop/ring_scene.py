"""What the tests of the ringing page work with: the example's signaling server, tabs used as a person would, both with
a relay and a browser in one scene. Pictures go to bench/out/ring/.
"""
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients/python"))

from browser import DIRECT, Page, chromium, open_tab
from relay import KEY_ID, ROOT, SECRET, Relay, check

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
            # A tab in the background is woken once a second only.
            tab.until("!['', '0:00'].includes(document.getElementById('timer').textContent)", 3, "timer that goes on")
            # The microphone opens at the answer. The browser's fake one is silent where there is no fake camera to
            # beep.
            heard = "t.totalAudioEnergy > 0" if tab.evaluate("window.pageCall().media") == "video" else "true"
            deadline = time.monotonic() + 5
            while not tab.evaluate(
                    f"{SESSION}.totals().then((t) => t.audioPacketsReceived > 20 && {heard})", wait=True):
                check(time.monotonic() < deadline, f"{tab.key} hears nothing")
                time.sleep(0.1)
