"""MediaRelay for signaling servers: one file, Python ≥ 3.11, standard library only.

    import mediarelay

    relay = mediarelay.Relay("http://127.0.0.1:8080", mediarelay.Key("main", secret))
    room = relay.create_room(kind="peer", media="video", ring={"caller": "alice", "callees": ["bob"]})
    token = relay.participant_token(room["id"], "bob", "phone")  # for bob's app, which asks the relay itself
    for event in relay.events(after=room["seq"]):                # for ever; resumes by itself
        print(event["type"], event.get("uid"))

What it does: rooms with and without a ring, ending and logging out, tokens, call records, the event log as a stream,
webhooks. Answers are the JSON of the API (docs/openapi.yaml) as dictionaries; a refusal is raised as `Problem`.
Nothing is kept between calls but the configuration, so one `Relay` serves any number of threads; an `Events` belongs
to one thread (any may `close` it).
"""
import base64
import binascii
import hashlib
import hmac
import http.client
import json
import random
import socket
import ssl
import threading
import time
import urllib.parse

__all__ = ["Key", "Relay", "Events", "EventGap", "Problem", "Webhooks", "WebhookRefused", "Unreachable"]


class Problem(Exception):
    """A refusal of the relay: an RFC 9457 problem document.

    `code` is for programs (`glare`, `session-already-active`, `call-not-found`, …), `detail` for people; `members`
    holds the whole document, such as the `roomId` of a glare or the `outcome` of an ended room. `retry_after` is in
    seconds, or None.
    """

    def __init__(self, status, members, retry_after=None):
        self.status, self.members, self.retry_after = status, members, retry_after
        self.code = members.get("code", "")
        self.detail = members.get("detail", f"The relay answered {status}.")
        super().__init__(f"{status} {self.code}: {self.detail}")


class Unreachable(ConnectionError):
    """The relay did not answer. Whether it did what was asked is unknown: repeat creations with an idempotency key."""


class EventGap(Exception):
    """The log went on with another number than the next one, also after a resumption: events are missing."""


# MARK: Tokens


def _part(value):
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).rstrip(b"=")


class Key:
    """A key that the relay was started with as `--key ID:SECRET`: HS256 (RFC 7515), at least 32 bytes.

    The relay takes ES256 as well, but Python's standard library has no elliptic curves: whoever wants ES256 gives
    `Relay` an object with a `sign(claims)` of their own, which returns the token's text.
    """

    def __init__(self, key_id, secret):
        self.id = key_id
        self._secret = secret.encode() if isinstance(secret, str) else bytes(secret)
        if len(self._secret) < 32:
            raise ValueError(f"the key has {len(self._secret)} bytes; the relay wants at least 32")

    def __repr__(self):
        return f"Key({self.id!r}, …)"

    def sign(self, claims):
        """A JSON Web Token with these claims."""
        text = _part({"alg": "HS256", "typ": "JWT", "kid": self.id}) + b"." + _part(claims)
        signature = hmac.new(self._secret, text, hashlib.sha256).digest()
        return (text + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


# MARK: The relay


class Relay:
    """The API of one node. `address`: `http://host:port` or `https://host:port`; `timeout`: seconds for one answer.

    `context`: an `ssl.SSLContext`, where the node's certificate needs one of its own.
    """

    SERVER_TOKEN_SECONDS = 300

    def __init__(self, address, key, timeout=30, context=None):
        parts = urllib.parse.urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
            raise ValueError(f"the relay's address is http://host:port or https://host:port, not {address!r}")
        self.address = f"{parts.scheme}://{parts.netloc}"
        self.timeout = timeout
        self._key = key
        self._host, self._port = parts.hostname, parts.port
        self._context = (context or ssl.create_default_context()) if parts.scheme == "https" else None

    # Tokens.

    def server_token(self, seconds=SERVER_TOKEN_SECONDS):
        """A token that sees and does everything; it leaves this process only towards the relay."""
        return self._key.sign({"scope": "admin", "exp": int(time.time() + seconds)})

    def participant_token(
        self, room, uid, device, seconds=3600, publish=("audio", "video"), subscribe=True, end=False,
    ):
        """A token for one device of a user in one room: to look, ring, prepare, join, leave and end its own part.

        It must live until the device has answered; at most 12 h. `end` lets it end an answered group call for
        everybody.
        """
        return self._key.sign({
            "aud": "media-relay", "sub": uid, "device": device, "room": room, "exp": int(time.time() + seconds),
            "grants": {"publish": list(publish), "subscribe": subscribe, "end": end},
        })

    # Rooms and rings.

    def create_room(self, idempotency_key=None, **specification):
        """A new room; `ring={"caller": …, "callees": […], "windowMs": …}` makes it a call that rings at once.

        With an idempotency key (kept for 24 h) a repetition gets the first answer. Raises `Problem`: `glare` when the
        callee is calling the caller (its `roomId` is the call to answer), `session-already-active`, `calling-self`.
        """
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return self.ask("POST", "/v1/rooms", specification, headers)

    def room(self, room):
        """A room as it is now, with its participants. Its `seq` is the cursor to follow events from without a gap."""
        return self.ask("GET", f"/v1/rooms/{_segment(room)}")

    def rooms(self, status=None, uid=None):
        """Every room of this status and user, and the cursor that goes with the list: `(rooms, seq)`."""
        found, cursor, seq = [], None, None
        while True:
            page = self.ask("GET", _path("/v1/rooms", status=status, uid=uid, cursor=cursor))
            found += page["rooms"]
            # Of the first page: what changed while the others were read is then told as an event.
            seq = page["seq"] if seq is None else seq
            cursor = page.get("next")
            if cursor is None:
                return found, seq

    def delete_room(self, room, reason=None):
        """Ends a room for everybody."""
        self.ask("DELETE", _path(f"/v1/rooms/{_segment(room)}", reason=reason))

    def end(self, room, status, uid, scope=None):
        """Ends a call for a user: `cancelled`, `rejected`, `busy`, `unanswered` or `ended`. The room, with its outcome.

        `scope="device"` is for devices and has no use here; an ended room is answered with the outcome that it has.
        """
        body = {"status": status, "uid": uid, **({"scope": scope} if scope else {})}
        return self.ask("POST", f"/v1/rooms/{_segment(room)}/end", body)

    def pushed(self, room, uid, device):
        """Notes in the call's record that the push for this device went out."""
        self.ask("POST", f"/v1/rooms/{_segment(room)}/pushed", {"uid": uid, "device": device})

    def play(self, room, idempotency_key=None, **prompt):
        """Lets participants hear a sound in place of the others: `tone=` or `file=`, `to=` (users), `times=`, `loop=`, `pauseMs=`.

        The prompt; its `promptId` is for `stop_prompt`. Raises `Problem`: `unknown-sound`, `nobody-listens`.
        """
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return self.ask("POST", f"/v1/rooms/{_segment(room)}/prompts", prompt, headers)

    def stop_prompt(self, room, prompt):
        """Stops a prompt; one that has just ended is stopped all the same."""
        self.ask("DELETE", f"/v1/rooms/{_segment(room)}/prompts/{_segment(prompt)}")

    def kick(self, room, participant):
        """Takes one participant out of a room."""
        self.ask("DELETE", f"/v1/rooms/{_segment(room)}/participants/{_segment(participant)}")

    def logout(self, uid):
        """Cancels, declines or leaves every call of a user: after a log-out or a lock of the account."""
        self.ask("DELETE", f"/v1/users/{_segment(uid)}/sessions")

    # Call records.

    def calls(self, uid=None, since=None, until=None, outcome=None):
        """Call records, the newest end first, page by page as they are asked for; of one user with that user's `view`.

        `since`, `until`: RFC 3339 texts, about the end of calls. `outcome`: an outcome, or with `uid` also `missed`.
        """
        cursor = None
        while True:
            query = {"uid": uid, "from": since, "to": until, "outcome": outcome, "cursor": cursor}
            page = self.ask("GET", _path("/v1/calls", **query))
            yield from page["calls"]
            cursor = page.get("next")
            if cursor is None:
                return

    def call(self, room, uid=None):
        """The record of an ended room; with `uid` as that user's call log shows it."""
        return self.ask("GET", _path(f"/v1/calls/{_segment(room)}", uid=uid))

    # Events.

    def events(self, after=None, room=None, stop=None):
        """The log from behind `after` (None: from now on), of one room or of all, as an endless iterator. See `Events`."""
        return Events(self, after, room, stop)

    def event_page(self, after=0, room=None, limit=256, wait=0):
        """The log as a page: `(events, next)`. `wait`: seconds (0…60) to wait for an event when there is none."""
        path = _path("/v1/events", after=after, room=room, limit=limit, wait=wait)
        page = self.ask("GET", path, headers={"Accept": "application/json"}, timeout=self.timeout + wait)
        return page["events"], page["next"]

    # HTTP.

    def connection(self, timeout=None):
        """A new connection to the node."""
        timeout = self.timeout if timeout is None else timeout
        if self._context:
            return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._context)
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout)

    def ask(self, method, path, body=None, headers=None, timeout=None):
        """One request with the server key. Its JSON; raises `Problem` or `Unreachable`."""
        fields = {"Authorization": f"Bearer {self.server_token()}", **(headers or {})}
        if body is not None:
            body, fields["Content-Type"] = json.dumps(body).encode(), "application/json"
        connection = self.connection(timeout)
        try:
            connection.request(method, path, body, fields)
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{method} {self.address}{path.split('?')[0]}: {error}") from error
        finally:
            connection.close()
        if response.status >= 300:
            raise _problem(response, content)
        return json.loads(content) if content else {}


def _segment(text):
    return urllib.parse.quote(str(text), safe="")


def _path(path, **query):
    pairs = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urllib.parse.urlencode(pairs)}" if pairs else path


def _problem(response, content):
    try:
        members = json.loads(content)
    except ValueError:
        members = {}
    retry = response.headers.get("Retry-After", "")
    return Problem(
        response.status, members if isinstance(members, dict) else {}, int(retry) if retry.isdecimal() else None)


# MARK: Events


class Events:
    """The relay's event log, in order, each event once, for as long as anybody asks for the next one.

    A broken stream is resumed behind the last event, after waits that grow from 0.1 s to 5 s. Every number is
    checked: what was told before is dropped, a gap is asked for again, and raised as `EventGap` if it is still there.
    When the relay no longer keeps what `after` asks for it says so with an `events.truncated` event, which is passed
    on: take a new snapshot.

    `cursor` is the number of the last event given out. Keep it with what you did about the event and start there next
    time: then nothing is lost or done twice by a restart of yours. (Without an `after`, what happens in a break
    before the first event is not told: start from the `seq` of a room or of `Relay.rooms`.) `stop`: a
    `threading.Event` that ends the iteration; `close` does so from any thread at once.
    """

    #: The relay writes a comment every 15 s: longer silence is a dead connection.
    SILENCE_SECONDS = 40
    FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0

    def __init__(self, relay, after=None, room=None, stop=None):
        self.cursor = after
        #: How often the stream was opened: 1, and one more for each resumption.
        self.openings = 0
        self._relay, self._room = relay, room
        self._stop = stop or threading.Event()
        self._socket = None
        self._room_seq = None
        self._gap = None

    def close(self):
        """Ends the iteration, also in the middle of waiting."""
        self._stop.set()
        stream = self._socket
        if stream is not None:
            try:
                stream.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def __iter__(self):
        wait = self.FIRST_WAIT
        while not self._stop.is_set():
            try:
                for event in self._stream():
                    wait = self.FIRST_WAIT
                    yield event
                    if self._stop.is_set():
                        return
            except Problem as problem:
                if problem.status < 500 and problem.status != 429:
                    raise
                wait = max(wait, problem.retry_after or 0)
            except (OSError, http.client.HTTPException, ValueError):
                pass
            # Half of it is drawn, so that not all consumers of a node come back at once.
            self._stop.wait(wait * random.uniform(0.5, 1))
            wait = min(2 * wait, self.LONGEST_WAIT)

    def _stream(self):
        connection = self._relay.connection(self.SILENCE_SECONDS)
        try:
            connection.request("GET", _path("/v1/events", after=self.cursor, room=self._room), headers={
                "Authorization": f"Bearer {self._relay.server_token()}", "Accept": "text/event-stream"})
            # Taken now: the connection lets go of it with an answer that has no length.
            self._socket = connection.sock
            response = connection.getresponse()
            if response.status != 200:
                raise _problem(response, response.read())
            self.openings += 1
            for text in _messages(response):
                event = json.loads(text)
                if self._is_next(event):
                    yield event
        finally:
            self._socket = None
            connection.close()

    def _is_next(self, event):
        """Whether to give it out: not when it came before; a gap breaks the stream, the second time for good."""
        if event["type"] == "events.truncated":
            self.cursor, self._room_seq = event["data"]["oldest"] - 1, None
            return True
        seq = event["seq"]
        if self.cursor is not None and seq <= self.cursor:
            return False
        # A stream of one room has gaps in the log's numbers; the room's own numbers have none.
        number, last = (event["roomSeq"], self._room_seq) if self._room else (seq, self.cursor)
        if last is not None and number != last + 1:
            if self._gap == last:
                raise EventGap(f"event {number} followed {last}")
            self._gap = last
            raise ConnectionError("a gap: asked for again")
        self.cursor, self._gap = seq, None
        if self._room:
            self._room_seq = number
        return True


def _messages(response):
    """The data of each Server-Sent Event of an answer."""
    data = []
    while line := response.readline():
        text = line.decode().rstrip("\r\n")
        if text.startswith("data:"):
            data.append(text[5:].removeprefix(" "))
        elif not text and data:
            yield "\n".join(data)
            data = []


# MARK: Webhooks


class WebhookRefused(Exception):
    """The request is not a webhook of the relay, or one that is too old; the message says why. Answer it with 401."""


class Webhooks:
    """Verifies webhooks as Standard Webhooks (https://www.standardwebhooks.com) has them.

    `secrets`: one or several `whsec_…` (base64 of 24…64 bytes); while a secret is rotated both are given.
    `tolerance`: how many seconds a timestamp may be off, either way. Deliveries are at least once: drop what has a
    `webhook-id` (the event's `id`) that you know.
    """

    PREFIX = "whsec_"

    def __init__(self, *secrets, tolerance=300):
        if not secrets:
            raise ValueError("a secret is needed")
        self.tolerance = tolerance
        self._secrets = [self._bytes(secret) for secret in secrets]

    @classmethod
    def _bytes(cls, secret):
        try:
            found = base64.b64decode(secret.removeprefix(cls.PREFIX), validate=True)
        except (binascii.Error, ValueError):
            found = b""
        if not secret.startswith(cls.PREFIX) or not 24 <= len(found) <= 64:
            raise ValueError(f"a secret is {cls.PREFIX} and base64 of 24…64 bytes")
        return found

    @classmethod
    def new_secret(cls):
        """A secret to configure on both sides."""
        return cls.PREFIX + base64.b64encode(random.SystemRandom().randbytes(32)).decode()

    def signature(self, message_id, timestamp, body, secret_index=0):
        """What the sender writes into `webhook-signature`; for tests of a receiver."""
        text = f"{message_id}.{timestamp}.".encode() + body
        digest = hmac.new(self._secrets[secret_index], text, hashlib.sha256).digest()
        return "v1," + base64.b64encode(digest).decode()

    def verify(self, headers, body, now=None):
        """The event of a request with these headers (any mapping with `get`) and this body (bytes, as they came).

        Raises `WebhookRefused`. `now`: seconds since 1970, for tests.
        """
        found = {str(name).lower(): value for name, value in headers.items()}
        message_id, timestamp, given = (found.get(f"webhook-{name}") for name in ("id", "timestamp", "signature"))
        if not message_id or not timestamp or not given:
            raise WebhookRefused("webhook-id, webhook-timestamp or webhook-signature is missing")
        if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= 12):
            raise WebhookRefused("webhook-timestamp is not a number of seconds")
        age = (time.time() if now is None else now) - int(timestamp)
        if abs(age) > self.tolerance:
            raise WebhookRefused(f"webhook-timestamp is {age:.0f} s old; {self.tolerance} s are allowed either way")
        if not self._is_signed(message_id, timestamp, body, given):
            raise WebhookRefused("no signature is of a known secret")
        try:
            event = json.loads(body)
        except ValueError:
            raise WebhookRefused("the body is not JSON") from None
        if not isinstance(event, dict):
            raise WebhookRefused("the body is not a JSON object")
        return event

    def _is_signed(self, message_id, timestamp, body, given):
        is_signed = False
        for index in range(len(self._secrets)):
            expected = self.signature(message_id, timestamp, body, index).encode()
            # Every pair is compared, in a time that says nothing of where they differ.
            for one in given.split(" "):
                is_signed |= hmac.compare_digest(expected, one.encode())
        return is_signed
