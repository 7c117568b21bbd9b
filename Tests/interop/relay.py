"""The built relay as a test sees it: started on given addresses, asked over its API, followed by its events, killed on purpose.

Standard library only. Refuses to touch any process that it did not start: control is known by its Popen, workers by the link
socket in this relay's own data folder.
"""
import base64
import hashlib
import hmac
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = pathlib.Path(os.environ.get("MEDIA_RELAY", ROOT / ".build/release/media-relay"))
KEY_ID = "interop"
SECRET = "a secret of the interop tests, 32 bytes or more"


def check(condition, what):
    """An assertion that survives `python -O` and says in words what was expected."""
    if not condition:
        raise AssertionError(what)


def token(claims):
    """A JWT, HS256, as a signaling server mints it."""
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    text = part({"alg": "HS256", "typ": "JWT", "kid": KEY_ID}) + b"." + part({"exp": int(time.time()) + 3600, **claims})
    signature = hmac.new(SECRET.encode(), text, hashlib.sha256).digest()
    return (text + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


ADMIN = {"scope": "admin"}


def participant(room, uid):
    return token({"aud": "media-relay", "sub": uid, "device": "test", "room": room})


class Answer:
    """One HTTP answer."""

    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)

    def expect(self, *statuses):
        check(self.status in statuses, f"status {self.status} instead of {statuses}: {self.body[:400]!r}")
        return self


class Relay:
    """One node with a data folder of its own, which goes away with it."""

    def __init__(self, http="127.0.0.1:8080", media="127.0.0.1:40000", announce=(), workers=1, options=(), admin="off"):
        check(BINARY.exists(), f"{BINARY} is missing: swift build -c release --product media-relay")
        self.http, self.media, self.announce, self.workers = http, media, announce, workers
        self.options, self.admin_listener = list(options), admin
        self.folder = tempfile.mkdtemp(prefix="media-relay-interop-")
        self.data = os.path.join(self.folder, "data")
        self.log_path = os.path.join(self.folder, "log")
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, error, _trace):
        if kind is not None:
            print("--- the relay's log ---", flush=True)
            print(pathlib.Path(self.log_path).read_text(errors="replace")[-6000:], flush=True)
        self.stop()

    def start(self, ready=200):
        """`ready`: what /readyz is to say once it serves."""
        command = [
            str(BINARY), "serve", "--demo", "--http", self.http, "--media", self.media, "--data", self.data,
            "--key", f"{KEY_ID}:{SECRET}", "--workers", str(self.workers), "--admin", self.admin_listener,
        ]
        for address in self.announce:
            command += ["--announce", address]
        command += self.options
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.wait_ready(ready=ready)

    def wait_ready(self, seconds=15, ready=200):
        deadline = time.monotonic() + seconds
        while True:
            check(self.process.poll() is None, f"the relay ended with code {self.process.returncode}")
            try:
                if self.ask("GET", "/readyz").status == ready:
                    return
            except OSError:
                pass
            check(time.monotonic() < deadline, f"the relay was not ready within {seconds} s")
            time.sleep(0.02)

    def kill_control(self):
        """SIGKILL to the control process alone."""
        self.process.kill()
        self.process.wait()

    def worker_pids(self):
        """Workers of this node's data folder that run now."""
        link = os.path.join(self.data, "workers.sock").encode()
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                arguments = pathlib.Path("/proc", entry, "cmdline").read_bytes().split(b"\0")
                state = pathlib.Path("/proc", entry, "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if link in arguments and b"worker" in arguments and state != "Z":
                found.append(int(entry))
        return found

    def stop(self):
        """SIGTERM; whatever of this node is left after 10 s is killed."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pid in self.worker_pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.folder, ignore_errors=True)

    # The API.

    def ask(self, method, path, body=None, bearer=None, headers=None, timeout=30):
        host, port = self.http.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=timeout)
        fields = dict(headers or {})
        if bearer:
            fields["Authorization"] = f"Bearer {bearer}"
        if isinstance(body, dict):
            body, fields["Content-Type"] = json.dumps(body), "application/json"
        try:
            connection.request(method, path, body=body, headers=fields)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def admin(self, method, path, body=None, headers=None, timeout=30):
        return self.ask(method, path, body, token(ADMIN), headers, timeout)

    def create_room(self, **specification):
        return self.admin("POST", "/v1/rooms", specification).expect(201).json["id"]

    def room(self, room):
        return self.admin("GET", f"/v1/rooms/{room}").expect(200).json

    def demo_session(self, room, name, kind="peer"):
        return self.ask("POST", "/demo/session", {"room": room, "name": name, "kind": kind}).expect(200).json

    def prepare(self, room, bearer, sdp, state="prepared"):
        """Location and answer of a new session."""
        answer = self.ask(
            "POST", f"/v1/rooms/{room}/sessions?state={state}", sdp, bearer, {"Content-Type": "application/sdp"})
        answer.expect(201)
        return answer.headers["Location"], answer.body.decode()

    def restart(self, location, bearer, offer, answer):
        """An ICE restart (RFC 9725 §4.3.3): what the answer in force is from now on."""
        lines = offer.splitlines()
        starts = ("a=group:BUNDLE", "a=ice-ufrag:", "a=ice-pwd:", "a=fingerprint:", "m=", "a=mid:")
        fragment = "".join(next(line for line in lines if line.startswith(start)) + "\r\n" for start in starts)
        given = self.ask("PATCH", location, fragment, bearer, {
            "Content-Type": "application/trickle-ice-sdpfrag", "If-Match": "*"}).expect(200).body.decode()
        for name in ("ice-ufrag", "ice-pwd"):
            found = re.search(rf"^a={name}:\S+", given, re.MULTILINE)
            check(found, f"no {name} in the relay's answer to the restart: {given}")
            answer = re.sub(rf"^a={name}:\S+", lambda _old, new=found[0]: new, answer, flags=re.MULTILINE)
        return answer

    def events(self, after=0, room=None):
        """Every event behind `after`."""
        found = []
        while True:
            path = f"/v1/events?after={after}&limit=1000" + (f"&room={room}" if room else "")
            page = self.admin("GET", path, headers={"Accept": "application/json"}).expect(200).json
            found += page["events"]
            if not page["events"]:
                return found
            after = page["next"]

    def await_event(self, kind, room, seconds, **fields):
        """The first event of this kind and these fields; waits for it."""
        deadline = time.monotonic() + seconds
        while True:
            for event in self.events(room=room):
                if event["type"] == kind and all(event.get(name) == value for name, value in fields.items()):
                    return event
            check(
                time.monotonic() < deadline,
                f"no {kind} {fields} within {seconds} s; there are {brief(self.events(room=room))}")
            time.sleep(0.02)


class Follower(threading.Thread):
    """A participant's event stream, read to its end."""

    def __init__(self, relay, room, bearer):
        super().__init__(daemon=True)
        self.relay, self.room, self.bearer = relay, room, bearer
        self.events, self.has_ended, self.failure = [], False, None
        self.start()

    def run(self):
        host, port = self.relay.http.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        try:
            connection.request("GET", f"/v1/rooms/{self.room}/events", headers={
                "Authorization": f"Bearer {self.bearer}", "Accept": "text/event-stream"})
            response = connection.getresponse()
            check(response.status == 200, f"the event stream answered {response.status}")
            check(response.headers["Content-Type"] == "text/event-stream", "the event stream has another content type")
            fields = {}
            while line := response.readline():
                text = line.decode().rstrip("\n")
                if text.startswith("data: "):
                    fields["data"] = text[6:]
                elif text.startswith("id: "):
                    fields["id"] = text[4:]
                elif not text and "data" in fields:
                    event = json.loads(fields["data"])
                    check(fields["id"] == str(event["seq"]), "the stream's id is not the event's seq")
                    self.events.append(event)
                    fields = {}
            self.has_ended = True
        except Exception as error:  # noqa: BLE001 — told to the test by `check_ended`
            self.failure = error
        finally:
            connection.close()

    def check_ended(self, seconds):
        self.join(seconds)
        check(self.failure is None, f"the event stream failed: {self.failure}")
        check(self.has_ended, f"the event stream did not end within {seconds} s of the room's end")
        check(self.events and self.events[-1]["type"] == "room.closed", "the stream's last event is not room.closed")


def brief(events):
    """Events in one line, for messages."""
    return " ".join(
        event["type"] + (f"({event.get('uid') or ''}{' ' + event['reason'] if event.get('reason') else ''})"
                         if event.get("uid") or event.get("reason") else "")
        for event in events)


def check_order(events):
    """What CALLS.md promises of any log: no gap in seq or in a room's seq, and every participant's life in its order."""
    for before, after in zip(events, events[1:]):
        check(after["seq"] == before["seq"] + 1, f"seq {after['seq']} follows {before['seq']}")
    check(not events or events[0]["seq"] == 1, "the log does not start with seq 1")
    rooms, lives = {}, {}
    rank = {f"participant.{word}": index for index, word in enumerate(["connecting", "prepared", "joined", "left"])}
    for event in events:
        check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["time"]), f"the time {event['time']}")
        room = event.get("roomId")
        if room is None:
            check(event["roomSeq"] == 0, f"{event['type']} has no room and roomSeq {event['roomSeq']}")
            continue
        check(event["roomSeq"] == rooms.get(room, 0) + 1, f"roomSeq {event['roomSeq']} follows {rooms.get(room, 0)}")
        rooms[room] = event["roomSeq"]
        if event["type"] in rank:
            life = lives.setdefault(event["participantId"], [])
            check(not life or rank[event["type"]] > rank[life[-1]], f"{event['type']} follows {life}")
            life.append(event["type"])
    return lives


def check_end(events, leaver, other):
    """A peer room's end after a hang-up: the leaver, the other, the room, once and in this order."""
    last = [(event["type"], event.get("uid"), event.get("reason")) for event in events[-3:]]
    check(
        last == [
            ("participant.left", leaver, "hangup"), ("participant.left", other, "peer-left"),
            ("room.closed", None, "hangup"),
        ], f"the room ended with {last}")
    check(events[-1]["data"]["outcome"] == "ended", f"outcome {events[-1]['data']}")
    check(sum(event["type"] == "room.closed" for event in events) == 1, "room.closed was told more than once")
