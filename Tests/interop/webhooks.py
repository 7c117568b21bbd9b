"""Webhooks of the real relay, taken by the Python client's verification: both dialects at once, over an absence and a kill."""
import http.server
import json
import sys
import threading
import time

from contract import SCHEMAS, conform
from relay import ROOT, Relay, check


class Receiver(http.server.ThreadingHTTPServer):
    """Keeps what it takes by path; refuses everything while `is_away`."""

    daemon_threads = True

    def __init__(self, verifiers):
        self.verifiers, self.events, self.is_away, self.refused = verifiers, {path: [] for path in verifiers}, False, 0
        self.changed = threading.Condition()
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def wait(self, path, kind):
        self.wait_until(path, lambda events: any(event["type"] == kind for event in events), f"no {kind}")

    def wait_for(self, path, count):
        self.wait_until(path, lambda events: len(events) >= count, f"not all of {count}")

    def wait_until(self, path, holds, missing):
        deadline = time.monotonic() + 30
        with self.changed:
            while not holds(self.events[path]):
                left = deadline - time.monotonic()
                check(left > 0, f"{missing} came at {path}: {[event['type'] for event in self.events[path]]}")
                self.changed.wait(left)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        event = self.server.verifiers[self.path].verify(self.headers, body)
        with self.server.changed:
            if self.server.is_away:
                self.server.refused += 1
            elif event["id"] not in [known["id"] for known in self.server.events[self.path]]:
                self.server.events[self.path].append(event)
            self.server.changed.notify_all()
            status = 503 if self.server.is_away else 204
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def webhooks():
    sys.path.insert(0, str(ROOT / "clients/python"))
    from mediarelay import Webhooks

    secrets = {path: Webhooks.new_secret() for path in ("/now", "/old")}
    receiver = Receiver({path: Webhooks(secret) for path, secret in secrets.items()})
    url = f"http://127.0.0.1:{receiver.server_address[1]}"
    options = [
        "--webhook", f"now={url}/now", "--webhook-secret", f"now={secrets['/now']}",
        "--webhook", f"old={url}/old", "--webhook-secret", f"old={secrets['/old']}", "--webhook-dialect", "old=legacy",
    ]
    with Relay(options=options) as relay:
        SCHEMAS.update(relay.ask("GET", "/v1/openapi.json").expect(200).json["components"]["schemas"])

        def call(name):
            ring = {"caller": f"{name}-alice", "callees": [f"{name}-bob"], "callerName": "Alice"}
            relay.admin("POST", "/v1/rooms", {"id": name, "media": "audio", "ring": ring}).expect(201)

        def end(name, status, who):
            relay.admin("POST", f"/v1/rooms/{name}/end", {"status": status, "uid": f"{name}-{who}"}).expect(200)

        call("c1")
        receiver.wait("/now", "call.initiated")
        receiver.wait("/old", "onIncomingCallReceived")
        receiver.is_away = True
        end("c1", "rejected", "bob")
        call("c2")
        relay.kill_control()
        relay.start()
        end("c2", "cancelled", "alice")
        receiver.is_away = False
        receiver.wait("/old", "onIncomingCallCancelled")
        page = relay.admin("GET", "/v1/events?after=0&limit=1000", headers={"Accept": "application/json"}).json
        log = page["events"]
        legacy = relay.admin(
            "GET", "/v1/events?after=0&dialect=legacy&limit=1000", headers={"Accept": "application/json"}).json
        receiver.wait_for("/now", len(log))
        receiver.wait_for("/old", len(legacy["events"]))
        got = receiver.events["/now"]
        check([event["seq"] for event in log] == sorted(event["seq"] for event in got), f"{len(got)} of {len(log)} came")
        for room in ("c1", "c2"):
            own = [event for event in got if event.get("roomId") == room]
            check(own == [event for event in log if event.get("roomId") == room], f"{room} came as {own}")
        for event in legacy["events"]:
            conform(event, {"$ref": "#/components/schemas/LegacyEvent"}, event["type"])
        check(
            sorted(json.dumps(event) for event in legacy["events"])
            == sorted(json.dumps(event) for event in receiver.events["/old"]),
            f"the earlier dialect came as {receiver.events['/old']}")
        types = [event["type"] for event in legacy["events"]]
        expected = [
            "onIncomingCallReceived", "onOutgoingCallRejected", "onIncomingCallReceived", "onIncomingCallCancelled"]
        check(types == expected, f"the callbacks are {types}")
        check(legacy["next"] == page["next"], "the dialects have different cursors")
        return f"{len(got)} events in the present words, {len(types)} in the earlier ones, {receiver.refused} refusals"
