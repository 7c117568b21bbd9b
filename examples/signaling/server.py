#!/usr/bin/env python3
"""A signaling server on MediaRelay: who is online, who calls whom, whom to wake. Python's standard library only.

This is its HTTP: the page, requests, streams, the way to the relay. What it knows is in signaling.py. It talks to the
relay over the public API alone, by clients/python/mediarelay.py.

    server.py --relay http://127.0.0.1:8080 --key KID:SECRET [--listen 127.0.0.1:8090]

What a product adds: real log-ins (here anybody is whoever they say), a database instead of dictionaries, real pushes.
"""
import argparse
import http.client
import json
import pathlib
import queue
import re
import select
import signal
import socket
import ssl
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from signaling import END, Refusal, Signaling

# Found where `signaling` looks for it.
import mediarelay

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = HERE / "page"
FILES = {path.name: path for path in PAGE.iterdir() if path.suffix in (".html", ".js", ".css")}
# The part that talks WebRTC is the one of the relay's own page: it exists once.
FILES["session.js"] = ROOT / "Sources/MediaRelay/Page/session.js"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "media-src 'self' blob: mediastream:; connect-src 'self'; base-uri 'none'; form-action 'none'")
CLOSED = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Handler(BaseHTTPRequestHandler):
    """The requests of the pages. What is under /v1/rooms/ is the relay's: it is passed on as it is."""

    protocol_version = "HTTP/1.1"
    server_version = "signaling"
    BODY_LIMIT = 64 * 1024
    timeout = 75

    def setup(self):
        super().setup()
        self.upstream = None

    def finish(self):
        if self.upstream:
            self.upstream.close()
        super().finish()

    def log_message(self, *_arguments):
        pass

    # MARK: Dispatch

    def do_GET(self):
        self.answer(self.get)

    def do_POST(self):
        self.answer(self.post)

    def do_PATCH(self):
        self.answer(self.forward)

    def do_DELETE(self):
        self.answer(self.forward)

    def answer(self, action):
        self.path_only = urllib.parse.urlsplit(self.path).path
        try:
            length = self.headers.get("Content-Length", "0")
            if not length.isdecimal() or int(length) > self.BODY_LIMIT or self.headers.get("Transfer-Encoding"):
                self.close_connection = True
                raise Refusal(413, f"A body has a length of at most {self.BODY_LIMIT} bytes.")
            self.body = self.rfile.read(int(length))
            action()
        except Refusal as refusal:
            self.json(refusal.status, refusal.members)
        except mediarelay.Problem as problem:
            self.json(problem.status, problem.members)
        except mediarelay.Unreachable as error:
            self.json(503, {"detail": "The relay does not answer.", "code": "relay-unreachable"})
            print(error, flush=True)
        except (BrokenPipeError, ConnectionResetError, TimeoutError, ssl.SSLError):
            self.close_connection = True

    def get(self):
        if self.path_only == "/stream":
            return self.stream(self.device())
        if self.path_only == "/calls":
            return self.json(200, {"calls": self.signaling.log(self.device().uid)})
        if self.path_only.startswith("/v1/rooms/"):
            return self.forward()
        self.file(self.path_only.lstrip("/") or "index.html")

    def post(self):
        if self.path_only == "/login":
            device = self.signaling.log_in(self.field("name", NAME))
            return self.json(200, {"uid": device.uid, "device": device.id, "session": device.session})
        if self.path_only == "/logout":
            self.signaling.log_out(self.device())
            return self.json(200, {})
        if self.path_only == "/calls":
            device = self.device()
            to, media = self.field("to", NAME), self.field("media", re.compile("audio|video"))
            return self.json(201, self.signaling.place(device, to, media))
        if self.path_only == "/hook" and self.webhooks:
            return self.hook()
        self.forward()

    def hook(self):
        try:
            event = self.webhooks.verify(self.headers, self.body)
        except mediarelay.WebhookRefused as refused:
            raise Refusal(401, str(refused)) from None
        self.signaling.receive(event)
        self.json(200, {})

    # MARK: Parts of a request

    @property
    def signaling(self):
        return self.server.signaling

    @property
    def webhooks(self):
        return self.server.webhooks

    def device(self):
        text = self.headers.get("Authorization", "")
        device = self.signaling.devices.get(text.removeprefix("Bearer "))
        if device is None:
            raise Refusal(401, "Not logged in.")
        return device

    def field(self, name, pattern):
        try:
            value = json.loads(self.body)[name]
        except (ValueError, KeyError, TypeError):
            value = None
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise Refusal(400, f"{name} must be {pattern.pattern}.")
        return value

    # MARK: Answers

    def head(self, status, fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()

    def json(self, status, value):
        body = json.dumps(value).encode()
        self.head(status, {
            "Content-Type": "application/json", "Content-Length": len(body), "Cache-Control": "no-store"})
        self.wfile.write(body)

    def file(self, name):
        path = FILES.get(name)
        if path is None:
            raise Refusal(404, "There is nothing at this path.")
        body = path.read_bytes()
        self.head(200, {
            "Content-Type": f"{TYPES[path.suffix]}; charset=utf-8", "Content-Length": len(body),
            "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"})
        self.wfile.write(body)

    def stream(self, device):
        """Server-Sent Events for as long as the tab reads them."""
        self.close_connection = True
        self.head(200, {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "Connection": "close"})
        stream = self.signaling.came(device)
        told = time.monotonic()
        try:
            while True:
                try:
                    message = stream.get(timeout=0.5)
                except queue.Empty:
                    # A reader that is gone shows as something to read: the end.
                    if select.select([self.connection], [], [], 0)[0]:
                        return
                    if time.monotonic() - told < 15:
                        continue
                    self.wfile.write(b": still here\n\n")
                else:
                    if message is END:
                        return
                    self.wfile.write(f"data: {json.dumps(message)}\n\n".encode())
                told = time.monotonic()
        finally:
            self.signaling.went(device, stream)

    def forward(self):
        """A request of a client to the relay, with the client's own token, and its answer.

        A product lets its reverse proxy do this. One origin for both matters: a page of another one would ask for leave
        (CORS) before each request with a token, and pay a round trip more for its answer to a call.
        """
        if not self.path_only.startswith("/v1/rooms/"):
            raise Refusal(404, "There is nothing at this path.")
        passed = ("Authorization", "Content-Type", "Accept", "If-Match", "Last-Event-ID", "Idempotency-Key")
        fields = {name: self.headers[name] for name in passed if name in self.headers}
        response = self.ask_relay(fields)
        fields = {
            name: response.headers[name]
            for name in ("Content-Type", "Location", "ETag", "Link", "Retry-After") if name in response.headers}
        length = response.headers.get("Content-Length")
        if length is None and response.status != 204:
            return self.forward_stream(response, fields)
        body = response.read()
        self.head(response.status, {**fields, "Content-Length": len(body), "Cache-Control": "no-store"})
        self.wfile.write(body)

    def ask_relay(self, fields):
        """Over the connection to the relay that belongs to this one; once more when that was closed meanwhile."""
        for attempt in range(2):
            is_fresh = self.upstream is None
            if is_fresh:
                self.upstream = self.signaling.relay.connection()
            try:
                self.upstream.request(self.command, self.path, self.body or None, fields)
                return self.upstream.getresponse()
            except (OSError, http.client.HTTPException) as error:
                self.upstream.close()
                self.upstream = None
                # A request that may have been carried out is not sent twice.
                if is_fresh or not isinstance(error, CLOSED):
                    raise mediarelay.Unreachable(f"{self.command} {self.path_only}: {error}") from error

    def forward_stream(self, response, fields):
        self.close_connection = True
        self.head(response.status, {**fields, "Cache-Control": "no-store", "Connection": "close"})
        while piece := response.read1(16 * 1024):
            self.wfile.write(piece)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address, signaling, webhooks, context):
        super().__init__(address, Handler)
        self.signaling, self.webhooks, self.context = signaling, webhooks, context

    def finish_request(self, request, client_address):
        # In the connection's own thread: a slow handshake delays nobody.
        request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.context:
            request.settimeout(10)
            request = self.context.wrap_socket(request, server_side=True)
        super().finish_request(request, client_address)

    def handle_error(self, request, client_address):
        error = sys.exception() if hasattr(sys, "exception") else sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handle_error(request, client_address)


def key(text):
    """`KID:SECRET` or `KID:@FILE`, as the relay takes it."""
    key_id, _, secret = text.partition(":")
    if secret.startswith("@"):
        secret = pathlib.Path(secret[1:]).read_bytes().rstrip(b"\r\n")
    return mediarelay.Key(key_id, secret)


def options():
    parser = argparse.ArgumentParser(description="A signaling server on MediaRelay.")
    parser.add_argument("--relay", default="http://127.0.0.1:8081", help="the relay's API (default %(default)s)")
    parser.add_argument(
        "--key", type=key, required=True, metavar="KID:SECRET", help="the relay's key; KID:@FILE reads it")
    parser.add_argument("--listen", default="127.0.0.1:8080", metavar="ADDR:PORT", help="default %(default)s")
    parser.add_argument("--tls-cert", metavar="FILE", help="with --tls-key: HTTPS")
    parser.add_argument("--tls-key", metavar="FILE")
    parser.add_argument("--window-ms", type=int, help="how long a call rings (default: the relay's, 45 s)")
    parser.add_argument(
        "--webhook-secret", action="append", metavar="whsec_…",
        help="take the relay's events as webhooks at /hook instead of its stream; repeatable while it is changed")
    return parser.parse_args()


def resumed(signaling):
    """Whichever of the two was started first: the relay is waited for."""
    while True:
        try:
            return signaling.resume()
        except mediarelay.Unreachable:
            time.sleep(0.2)


def main():
    given = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    context = None
    if given.tls_cert:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(given.tls_cert, given.tls_key)
    host, _, port = given.listen.rpartition(":")
    signaling = Signaling(mediarelay.Relay(given.relay, given.key), given.window_ms)
    seq = resumed(signaling)
    webhooks = mediarelay.Webhooks(*given.webhook_secret) if given.webhook_secret else None
    if webhooks is None:
        threading.Thread(target=signaling.follow, args=(seq,), daemon=True).start()
    try:
        server = Server((host, int(port)), signaling, webhooks, context)
    except OSError as error:
        sys.exit(f"server.py: {given.listen}: {error.strerror}")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
