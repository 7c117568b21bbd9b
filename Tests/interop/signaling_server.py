"""The example's signaling server by HTTP alone: who is told what, and what a restart of it forgets and does not."""
import http.client
import json
import queue
import socket
import threading
import time

from relay import Relay, check
from ring_scene import ADDRESS, SignalingServer

import mediarelay


def ask(method, path, session=None, body=None, expect=200):
    connection = http.client.HTTPConnection(ADDRESS, timeout=10)
    try:
        headers = {"Authorization": f"Bearer {session}"} if session else {}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
        check(answer.status == expect, f"{method} {path} answered {answer.status}, not {expect}: {text[:300]!r}")
        return json.loads(text)
    finally:
        connection.close()


class Device(threading.Thread):
    """A user's device as a page would be: logged in, reading its stream."""

    def __init__(self, name):
        super().__init__(daemon=True)
        self.messages = queue.Queue()
        given = ask("POST", "/login", body={"name": name})
        self.uid, self.device, self.session = given["uid"], given["device"], given["session"]
        self.connection = http.client.HTTPConnection(ADDRESS, timeout=30)
        self.connection.request("GET", "/stream", headers={"Authorization": f"Bearer {self.session}"})
        self.socket = self.connection.sock
        self.response = self.connection.getresponse()
        check(self.response.status == 200, f"the stream answered {self.response.status}")
        self.start()
        self.wait("hello")

    def run(self):
        try:
            while line := self.response.readline():
                if line.startswith(b"data: "):
                    self.messages.put(json.loads(line[6:]))
        except (OSError, ValueError, AttributeError):
            pass
        self.messages.put({"kind": "gone"})

    def wait(self, kind, seconds=5, **fields):
        """The next message of this kind whose event or self has these fields; others before it are passed over."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                message = self.messages.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"{self.uid}: no {kind} {fields} within {seconds} s") from None
            inner = message.get("event", message)
            if message["kind"] == kind and all(inner.get(name) == value for name, value in fields.items()):
                return message

    def place(self, to, media="audio"):
        return ask("POST", "/calls", self.session, {"to": to, "media": media}, 201)

    def leave(self):
        self.socket.shutdown(socket.SHUT_RDWR)


def relay_ask(verb, room, token, body=None):
    """As a page asks the relay: through the signaling server."""
    return ask("POST", f"/v1/rooms/{room}/{verb}", token, body)


def signaling_server():
    with Relay() as relay:
        with SignalingServer(relay) as server:
            ask("POST", "/login", body={"name": "not a name"}, expect=400)
            ask("POST", "/login", body=["x"], expect=400)
            ask("GET", "/stream", "stranger", expect=401)
            ask("POST", "/calls", "stranger", {"to": "bob", "media": "audio"}, 401)
            ask("GET", "/v1/rooms", "stranger", expect=404)
            ask("GET", "/v1/events", "stranger", expect=404)
            ask("GET", "/../server.py", expect=404)
            ask("POST", "/hook", body={}, expect=404)

            alice, bob, tablet, carol = Device("alice"), Device("bob"), Device("bob"), Device("carol")
            alice.wait("presence", people=[{"uid": name, "online": True} for name in ("alice", "bob", "carol")])
            call = alice.place("bob")
            rings = [device.wait("ring", room=call["room"], caller="alice") for device in (bob, tablet)]
            check(rings[0]["token"] != rings[1]["token"], "two devices got the same token")
            relay_ask("ringing", call["room"], rings[0]["token"])
            alice.wait("event", type="call.ringing", uid="bob")
            relay_ask("end", call["room"], rings[1]["token"], {"status": "busy"})
            for device in (alice, bob, tablet):
                end = device.wait("event", type="call.ended")["event"]
                check(end["data"]["outcome"] == "busy", f"{device.uid} is told {end}")
            log = ask("GET", "/calls", bob.session)["calls"]
            check([entry["status"] for entry in log] == ["busy"], f"bob's log is {log}")
            check(ask("GET", "/calls", carol.session)["calls"] == [], "carol's log has a call of others")
            check(carol.messages.empty() or "event" not in str(list(carol.messages.queue)), "carol is told of it")

            # A device that is gone is not online; who has none is pushed to, and the relay is told.
            carol.leave()
            alice.wait("presence", people=[
                {"uid": name, "online": name != "carol"} for name in ("alice", "bob", "carol")])
            call = alice.place("carol")
            deadline = time.monotonic() + 5
            while "push to carol's phone" not in server.log():
                check(time.monotonic() < deadline, "no push to carol")
                time.sleep(0.05)
            relay_ask("end", call["room"], call["token"], {"status": "cancelled"})
            check(alice.wait("event", type="call.ended")["event"]["data"]["outcome"] == "cancelled", "not cancelled")

            # A log-out ends what the user has.
            call = alice.place("bob")
            bob.wait("ring", room=call["room"])
            ask("POST", "/logout", alice.session, {})
            check(bob.wait("event", type="call.ended")["event"]["data"]["outcome"] == "cancelled", "not cancelled")
            alice.wait("gone")

            alice = Device("alice")
            call = alice.place("bob")
            bob.wait("ring", room=call["room"])
        bob.wait("gone")
        # The server comes back and knows nobody, but the call rings on, and who comes is told.
        with SignalingServer(relay):
            ask("GET", "/stream", bob.session, expect=401)
            bob, alice = Device("bob"), Device("alice")
            ring = bob.wait("ring", room=call["room"], caller="alice")
            relay_ask("end", ring["room"], ring["token"], {"status": "rejected"})
            check(alice.wait("event", type="call.ended")["event"]["data"]["outcome"] == "rejected", "not rejected")
        return "log-in, presence, ring, push, log-out, restart in the middle of a ring"


def signaling_webhooks():
    """The same server fed by webhooks, which wait while it is away."""
    secret = mediarelay.Webhooks.new_secret()
    hook = ["--webhook", f"example=http://{ADDRESS}/hook", "--webhook-secret", f"example={secret}"]
    with Relay(options=hook) as relay:
        with SignalingServer(relay, "--webhook-secret", secret):
            ask("POST", "/hook", body={"type": "call.ended"}, expect=401)
            alice, bob = Device("alice"), Device("bob")
            call = alice.place("bob")
            ring = bob.wait("ring", room=call["room"])
            relay_ask("ringing", call["room"], ring["token"])
            alice.wait("event", type="call.ringing")
        # The relay keeps what it could not deliver, and goes on in order: the end of the first call, then the second.
        rejected = {"status": "rejected"}
        relay.ask("POST", f"/v1/rooms/{call['room']}/end", rejected, ring["token"]).expect(200)
        with SignalingServer(relay, "--webhook-secret", secret):
            alice, bob = Device("alice"), Device("bob")
            second = alice.place("bob")
            ring = bob.wait("ring", 20, room=second["room"])
            relay_ask("end", second["room"], ring["token"], rejected)
            check(alice.wait("event", 20, type="call.ended")["event"]["roomId"] == second["room"], "another call ended")
            log = ask("GET", "/calls", bob.session)["calls"]
            check([entry["status"] for entry in log] == ["rejected", "rejected"], f"bob's log is {log}")
        return "ring, ringing and end by webhook, also behind a restart of the server"
