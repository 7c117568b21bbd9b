"""Chromium as a client of the lab: a tab for each client, its fake devices fed with scene.py's picture and sound."""
import asyncio
import functools
import http.server
import json
import pathlib
import tempfile
import threading

import browser
import scene

HERE = pathlib.Path(__file__).resolve().parent


class BlankPages(http.server.BaseHTTPRequestHandler):
    """Getting a camera needs a page of a secure origin: localhost is one."""

    def do_GET(self):
        body = b"<!doctype html><title>lab</title><link rel=icon href=data:,><body></body>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        pass


class Window:
    """A Chromium with a tab for each of `names`, each of them a client; all of it ends with `stop`."""

    def __init__(self, names):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), BlankPages)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.folder = tempfile.TemporaryDirectory(prefix="media-relay-lab-")
        camera, microphone = (pathlib.Path(self.folder.name, name) for name in ("camera.y4m", "microphone.wav"))
        scene.write_camera(camera)
        scene.write_microphone(microphone)
        flags = [f"--use-file-for-fake-video-capture={camera}", f"--use-file-for-fake-audio-capture={microphone}"]
        address = f"http://127.0.0.1:{self.server.server_address[1]}/?name="
        self.browser = browser.chromium(address + names[0], flags)
        for name in names[1:]:
            browser.open_tab(address + name)
        self.peers = [TabPeer(browser.Page(f"name={name}")) for name in names]

    def stop(self):
        self.browser.stop()
        self.server.shutdown()
        self.folder.cleanup()


class TabPeer:
    """The client in one tab, with LabPeer's verbs."""

    def __init__(self, page):
        self.page, self.turn = page, asyncio.Lock()
        page.socket.settimeout(30)
        page.until("document.readyState === 'complete' && document.title === 'lab'", 30, "page")
        page.evaluate((HERE / "peer.js").read_text())

    def __getattr__(self, name):
        async def ask(*arguments):
            words = ", ".join(json.dumps(argument) for argument in arguments)
            async with self.turn:
                return await asyncio.to_thread(functools.partial(self.page.evaluate, f"lab.{name}({words})", wait=True))

        return ask
