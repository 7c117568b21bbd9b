"""Real browsers without a driver: started on the demo page's automatic mode, they report to a small server here.

Standard library only. A picture of the page is taken over Chromium's remote debugging port.
"""
import base64
import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request

from relay import check

CHROMIUM_FLAGS = [
    "--headless=new", "--no-sandbox", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
    "--autoplay-policy=no-user-gesture-required", "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding", "--disable-background-timer-throttling", "--mute-audio",
    "--allow-loopback-in-peer-connection", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--window-size=1100,900", "--hide-scrollbars",
]
DEBUGGING_PORT = 9222
# Whatever proxy the environment names: these requests stay on loopback.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
FIREFOX_PREFERENCES = {
    "media.navigator.streams.fake": True, "media.navigator.permission.disabled": True, "media.autoplay.default": 0,
    "media.peerconnection.ice.obfuscate_host_addresses": False, "media.gmp-manager.updateEnabled": False,
    "app.update.auto": False, "app.update.enabled": False, "browser.safebrowsing.malware.enabled": False,
    "browser.safebrowsing.phishing.enabled": False, "browser.shell.checkDefaultBrowser": False,
    "browser.startup.homepage_override.mstone": "ignore", "browser.aboutwelcome.enabled": False,
    "datareporting.policy.dataSubmissionEnabled": False, "datareporting.healthreport.uploadEnabled": False,
    "toolkit.telemetry.enabled": False, "toolkit.telemetry.reportingpolicy.firstRun": False,
    "network.captive-portal-service.enabled": False, "network.connectivity-service.enabled": False,
    "app.normandy.enabled": False, "extensions.update.enabled": False, "dom.ipc.processPrelaunch.enabled": False,
}


class Reports:
    """Takes the pages' reports, by name."""

    def __init__(self, port=9000):
        reports = self.reports = {}
        arrived = self.arrived = threading.Condition()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with arrived:
                    reports[self.path.rsplit("/", 1)[-1]] = json.loads(body)
                    arrived.notify_all()
                self.send_response(204)
                self.send_header("Access-Control-Allow-Origin", "*")
                self.end_headers()

            def do_OPTIONS(self):
                self.send_response(204)
                for name in ("Origin", "Headers", "Methods", "Private-Network"):
                    value = "true" if name == "Private-Network" else "*"
                    self.send_header(f"Access-Control-Allow-{name}", value)
                self.end_headers()

            def log_message(self, *_arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def page(self, relay, room, name, seconds, leave=False):
        """The address of the page in automatic mode."""
        query = {
            "room": room, "name": name, "auto": "1", "secs": str(seconds), "leave": "1" if leave else "0",
            "report": f"http://127.0.0.1:{self.port}/{name}",
        }
        return f"http://{relay.http}/?{urllib.parse.urlencode(query)}"

    def wait(self, names, seconds):
        deadline = time.monotonic() + seconds
        with self.arrived:
            while not all(name in self.reports for name in names):
                left = deadline - time.monotonic()
                check(left > 0, f"no report of {[name for name in names if name not in self.reports]} in {seconds} s; "
                                f"there are {list(self.reports.values())}")
                self.arrived.wait(left)
        return [self.reports[name] for name in names]

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Browser:
    """A started browser with a profile of its own; all of it goes away at the end."""

    def __init__(self, command, profile, environment=None):
        self.profile = profile
        self.log = open(os.path.join(profile, "browser.log"), "wb")
        # A session of its own: the browser's helpers end with it, by its process group.
        self.process = subprocess.Popen(
            command, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "HOME": profile, "TMPDIR": profile, "XDG_RUNTIME_DIR": profile, **(environment or {})})

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.stop()

    def stop(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                break
            try:
                self.process.wait(4)
                if number == signal.SIGTERM:
                    time.sleep(0.3)
            except subprocess.TimeoutExpired:
                pass
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.profile, ignore_errors=True)


def chromium(address, flags=()):
    profile = tempfile.mkdtemp(prefix="media-relay-chromium-")
    own = [f"--user-data-dir={profile}", f"--remote-debugging-port={DEBUGGING_PORT}"]
    return Browser(["chromium", *CHROMIUM_FLAGS, *own, *flags, address], profile)


def open_tab(address, seconds=20):
    """One more tab in the running Chromium: headless, it takes a single address on its command line."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{DEBUGGING_PORT}/json/new?{urllib.parse.quote(address, safe='')}", method="PUT")
    deadline = time.monotonic() + seconds
    while True:
        try:
            return DIRECT.open(request, timeout=5).close()
        except OSError as error:
            check(time.monotonic() < deadline, f"no second tab within {seconds} s: {error}")
            time.sleep(0.1)


def firefox(address):
    profile = tempfile.mkdtemp(prefix="media-relay-firefox-")
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in FIREFOX_PREFERENCES.items()]
    pathlib.Path(profile, "user.js").write_text("\n".join(lines) + "\n")
    return Browser(["firefox-esr", "--headless", "--profile", profile, "--new-instance", address], profile)


class Page:
    """One tab of a Chromium over the DevTools protocol: just enough of a WebSocket client to send a command and read on."""

    def __init__(self, containing, seconds=20):
        port = DEBUGGING_PORT
        deadline = time.monotonic() + seconds
        address = None
        while address is None:
            try:
                with DIRECT.open(f"http://127.0.0.1:{port}/json/list", timeout=5) as answer:
                    tabs = json.load(answer)
                address = next(
                    (tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page" and containing in tab["url"]), None)
            except OSError:
                pass
            check(time.monotonic() < deadline, f"no tab with {containing} within {seconds} s")
            if address is None:
                time.sleep(0.1)
        path = "/" + address.split("/", 3)[3]
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.socket.recv(1)
        check(b" 101 " in head.split(b"\r\n")[0], f"the tab refused the WebSocket: {head!r}")
        self.next = 0

    def ask(self, method, **parameters):
        self.next += 1
        self.write(json.dumps({"id": self.next, "method": method, "params": parameters}).encode())
        while True:
            message = json.loads(self.read())
            if message.get("id") == self.next:
                check("error" not in message, f"{method}: {message.get('error')}")
                return message["result"]

    def evaluate(self, expression, wait=False):
        """The expression's value; `wait`: what its promise gives."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=wait)
        check(not wait or "exceptionDetails" not in answer, f"{expression}: {answer.get('exceptionDetails')}")
        return answer["result"].get("value")

    def until(self, expression, seconds, what):
        deadline = time.monotonic() + seconds
        while not self.evaluate(expression):
            check(time.monotonic() < deadline, f"no {what} within {seconds} s")
            time.sleep(0.05)

    def press(self, key):
        """A key of the keyboard, in the tab that is in front."""
        codes = {"Enter": (13, "\r"), "Tab": (9, ""), " ": (32, " ")}
        code, text = codes[key]
        fields = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": code}
        self.ask("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **fields)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **fields)

    @property
    def focus(self):
        return self.evaluate("document.activeElement.id")

    def picture(self, path, width=1100, height=980, dark=False):
        """The tab as a window of this size shows it."""
        self.ask("Page.bringToFront")
        scheme = "dark" if dark else "light"
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        time.sleep(0.5)
        data = self.ask("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def write(self, payload):
        mask = os.urandom(4)
        count = len(payload)
        head = bytes([0x81])
        if count < 126:
            head += bytes([0x80 | count])
        elif count < 1 << 16:
            head += bytes([0x80 | 126]) + count.to_bytes(2, "big")
        else:
            head += bytes([0x80 | 127]) + count.to_bytes(8, "big")
        self.socket.sendall(head + mask + bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload)))

    def read(self):
        """One message, its fragments joined; control frames are passed over."""
        whole = b""
        while True:
            first, second = self.exactly(2)
            count = second & 0x7F
            if count == 126:
                count = int.from_bytes(self.exactly(2), "big")
            elif count == 127:
                count = int.from_bytes(self.exactly(8), "big")
            payload = self.exactly(count)
            if first & 0x0F in (0, 1, 2):
                whole += payload
                if first & 0x80:
                    return whole
            check(first & 0x0F != 8, "the tab closed the WebSocket")

    def exactly(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            check(part, "the tab is gone")
            data += part
        return data

    def close(self):
        self.socket.close()
