"""The client against a real relay, and against servers that lie.

The interop test `python-client` runs it, in a network namespace of its own.
"""
import base64
import http.server
import json
import pathlib
import sys
import threading
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "Tests/interop")]

import mediarelay  # noqa: E402
import relay as interop  # noqa: E402

# The example that the convention's libraries test themselves with.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MESSAGE, SECONDS, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


class WebhookTests(unittest.TestCase):
    def headers(self, **changes):
        return {
            "webhook-id": MESSAGE, "webhook-timestamp": str(SECONDS), "webhook-signature": SIGNATURE,
            **{name.replace("_", "-"): value for name, value in changes.items()}}

    def refused(self, words, *secrets, body=BODY, now=SECONDS, **changes):
        headers = {name: value for name, value in self.headers(**changes).items() if value is not None}
        with self.assertRaisesRegex(mediarelay.WebhookRefused, words):
            mediarelay.Webhooks(*(secrets or (SECRET,))).verify(headers, body, now)

    def test_a_message_of_another_implementation_is_verified(self):
        hooks = mediarelay.Webhooks(SECRET)
        self.assertEqual(hooks.verify(self.headers(), BODY, SECONDS), {"test": 2432232314})
        self.assertEqual(hooks.signature(MESSAGE, SECONDS, BODY), SIGNATURE)

    def test_names_of_headers_have_no_case(self):
        headers = {name.title(): value for name, value in self.headers().items()}
        self.assertEqual(mediarelay.Webhooks(SECRET).verify(headers, BODY, SECONDS), {"test": 2432232314})

    def test_a_missing_header_is_refused(self):
        for name in ("webhook_id", "webhook_timestamp", "webhook_signature"):
            self.refused("missing", **{name: None})
            self.refused("missing", **{name: ""})

    def test_the_timestamp_may_be_off_by_the_tolerance_and_no_more(self):
        for off in (-300, 300):
            mediarelay.Webhooks(SECRET).verify(self.headers(), BODY, SECONDS + off)
        for off in (-301, 301):
            self.refused("s old", now=SECONDS + off)

    def test_a_timestamp_that_is_no_number_is_refused(self):
        for text in ("x", "-1", "1e9", " 1614265330", "١٦١٤٢٦٥٣٣٠", "9" * 13):
            self.refused("not a number", webhook_timestamp=text)

    def test_whatever_was_changed_is_refused(self):
        self.refused("signature", body=BODY + b" ")
        self.refused("signature", webhook_id=MESSAGE + "x")
        self.refused("signature", webhook_timestamp=str(SECONDS + 1))
        self.refused("signature", webhook_signature=SIGNATURE.replace("v1,", "v2,"))
        self.refused("signature", webhook_signature=SIGNATURE[:-2])
        self.refused("signature", webhook_signature="v1,ü")
        self.refused("signature", mediarelay.Webhooks.new_secret())

    def test_one_of_several_signatures_is_enough(self):
        headers = self.headers(webhook_signature=f"v1,AAAA v1a,xyz {SIGNATURE}")
        self.assertEqual(mediarelay.Webhooks(SECRET).verify(headers, BODY, SECONDS), {"test": 2432232314})

    def test_one_of_several_secrets_is_enough(self):
        hooks = mediarelay.Webhooks(mediarelay.Webhooks.new_secret(), SECRET)
        self.assertEqual(hooks.verify(self.headers(), BODY, SECONDS), {"test": 2432232314})

    def test_a_body_that_is_no_object_is_refused(self):
        for body in (b"[]", b"{", b""):
            signature = mediarelay.Webhooks(SECRET).signature(MESSAGE, SECONDS, body)
            self.refused("JSON", body=body, webhook_signature=signature)

    def test_a_secret_has_a_form(self):
        short = "whsec_" + base64.b64encode(bytes(23)).decode()
        for text in ("", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_%", short):
            with self.assertRaises(ValueError):
                mediarelay.Webhooks(text)
        with self.assertRaises(ValueError):
            mediarelay.Webhooks()


class Liar(http.server.BaseHTTPRequestHandler):
    """Streams with the numbers of `script`, one list for each opening."""

    script, asked = [], []

    def do_GET(self):
        self.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for one in self.script.pop(0) if self.script else []:
            event = one if isinstance(one, dict) else {"type": "room.created", "seq": one, "data": {}}
            self.wfile.write(f": comment\nid: x\ndata: {json.dumps(event)}\n\n".encode())

    def log_message(self, *_arguments):
        pass


class FollowTests(unittest.TestCase):
    """What a stream must never do."""

    def follow(self, script, count, after=0):
        Liar.script, Liar.asked = script, []
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            node = mediarelay.Relay(f"http://127.0.0.1:{server.server_port}", mediarelay.Key("k", "s" * 32))
            events, found = node.events(after=after), []
            for event in events:
                found.append(event.get("seq"))
                if len(found) == count:
                    events.close()
            return found
        finally:
            server.shutdown()
            server.server_close()

    def test_what_was_told_before_is_not_told_again(self):
        self.assertEqual(self.follow([[1, 2], [1, 2, 3, 3, 4]], 4), [1, 2, 3, 4])
        self.assertEqual(Liar.asked, ["/v1/events?after=0", "/v1/events?after=2"])

    def test_a_gap_is_asked_for_again(self):
        self.assertEqual(self.follow([[1, 2, 4], [3, 4]], 4), [1, 2, 3, 4])
        self.assertEqual(Liar.asked[1], "/v1/events?after=2")

    def test_a_gap_that_stays_is_raised(self):
        with self.assertRaisesRegex(mediarelay.EventGap, "event 4 followed 2"):
            self.follow([[1, 2, 4], [4]], 9)

    def test_a_truncated_log_is_passed_on_and_goes_on_behind_the_truncation(self):
        truncated = {"type": "events.truncated", "data": {"after": 3, "oldest": 100}}
        self.assertEqual(self.follow([[truncated], [100, 101]], 3, after=3), [None, 100, 101])
        self.assertEqual(Liar.asked, ["/v1/events?after=3", "/v1/events?after=99"])


class RelayTests(unittest.TestCase):
    """Against a real relay."""

    @classmethod
    def setUpClass(cls):
        cls.node = interop.Relay()
        cls.node.start()
        cls.client = mediarelay.Relay(f"http://{cls.node.http}", mediarelay.Key(interop.KEY_ID, interop.SECRET))

    @classmethod
    def tearDownClass(cls):
        cls.node.stop()

    def ring(self, caller, callee, **more):
        return self.client.create_room(kind="peer", media="audio", ring={"caller": caller, "callees": [callee]}, **more)

    def test_a_call_is_made_ended_and_ended_once(self):
        room = self.ring("a1", "b1")
        self.assertEqual(room["status"], "initiated")
        self.client.pushed(room["id"], "b1", "phone")
        self.assertEqual(self.client.end(room["id"], "rejected", "b1")["outcome"], "rejected")
        self.assertEqual(self.client.end(room["id"], "cancelled", "a1")["outcome"], "rejected")
        self.assertEqual(self.client.room(room["id"])["outcome"], "rejected")
        events, _ = self.client.event_page(room=room["id"])
        self.assertEqual(sum(event["type"] == "call.ended" for event in events), 1)

    def test_a_call_is_in_the_log_of_both_as_each_sees_it(self):
        rooms = [self.ring("a10", "b10")["id"] for _ in range(3) if not self.client.logout("a10")]
        self.client.end(rooms[2], "rejected", "b10")
        self.assertEqual([record["roomId"] for record in self.client.calls(uid="a10")], rooms[::-1])
        seen = [record["view"]["status"] for record in self.client.calls(uid="b10")]
        self.assertEqual(seen, ["rejected", "missed", "missed"])
        missed = [record["roomId"] for record in self.client.calls(uid="b10", outcome="missed")]
        self.assertEqual(missed, rooms[1::-1])
        record = self.client.call(rooms[0], uid="b10")
        self.assertEqual((record["outcome"], record["view"]["status"]), ("cancelled", "missed"))
        self.assertEqual(list(self.client.calls(uid="a10", since=record["endedAt"], until=record["endedAt"])), [])

    def test_a_creation_with_the_same_idempotency_key_makes_one_room(self):
        first = self.ring("a2", "b2", idempotency_key="once")
        self.assertEqual(self.ring("a2", "b2", idempotency_key="once")["id"], first["id"])
        with self.assertRaises(mediarelay.Problem) as caught:
            self.ring("a2", "c2", idempotency_key="once")
        self.assertEqual(caught.exception.status, 422)
        self.client.delete_room(first["id"])

    def test_a_refusal_says_what_and_why(self):
        room = self.ring("a3", "b3")["id"]
        with self.assertRaises(mediarelay.Problem) as caught:
            self.ring("b3", "a3")
        self.assertEqual((caught.exception.status, caught.exception.code), (409, "glare"))
        self.assertEqual(caught.exception.members["roomId"], room)
        with self.assertRaisesRegex(mediarelay.Problem, "404"):
            self.client.room("nowhere")
        with self.assertRaisesRegex(mediarelay.Problem, "400"):
            self.client.create_room(colour="red")
        self.client.delete_room(room, reason="test")
        self.assertEqual(self.client.room(room)["reason"], "test")

    def test_a_logout_ends_what_a_user_has(self):
        room = self.ring("a4", "b4")["id"]
        self.client.logout("a4")
        self.assertEqual(self.client.room(room)["outcome"], "cancelled")

    def test_a_prompt_is_played_until_it_is_stopped(self):
        room = self.ring("a6", "b6")["id"]
        prompt = self.client.play(room, tone="ringback", to=["a6"], loop=True)
        self.assertEqual([one["promptId"] for one in self.client.room(room)["prompts"]], [prompt["promptId"]])
        for _ in range(2):
            self.client.stop_prompt(room, prompt["promptId"])
        self.assertNotIn("prompts", self.client.room(room))
        with self.assertRaisesRegex(mediarelay.Problem, "unknown-sound"):
            self.client.play(room, tone="none")
        self.client.logout("a6")

    def test_a_list_names_the_rooms_of_a_user_with_their_cursor(self):
        ours = [self.ring(f"a5{index}", "b5", allowParallel=True)["id"] for index in range(3)]
        rooms, seq = self.client.rooms(uid="b5")
        self.assertEqual([room["id"] for room in rooms], ours)
        self.assertEqual(self.client.rooms(uid="nobody", status="ongoing"), ([], seq))
        self.client.logout("b5")
        events, _ = self.client.event_page(after=seq)
        self.assertEqual({event["roomId"] for event in events}, set(ours))

    def test_tokens_do_what_they_are_for_and_no_more(self):
        room, other = self.ring("a6", "b6")["id"], self.ring("a7", "b7")["id"]
        token = self.client.participant_token(room, "b6", "phone")
        self.node.ask("POST", f"/v1/rooms/{room}/ringing", None, token).expect(200)
        self.node.ask("GET", f"/v1/rooms/{other}", bearer=token).expect(404)
        self.node.ask("GET", "/v1/rooms", bearer=token).expect(403)
        expired = self.client.participant_token(room, "b6", "phone", seconds=-60)
        self.node.ask("POST", f"/v1/rooms/{room}/answer", None, expired).expect(401)
        stranger = mediarelay.Relay(self.client.address, mediarelay.Key(interop.KEY_ID, "x" * 32))
        with self.assertRaisesRegex(mediarelay.Problem, "401"):
            stranger.rooms()
        for one in (room, other):
            self.client.delete_room(one)

    def test_a_key_is_not_shown_and_not_short(self):
        self.assertNotIn("s" * 8, repr(mediarelay.Key("k", "s" * 32)))
        with self.assertRaises(ValueError):
            mediarelay.Key("k", "s" * 31)

    def test_an_address_has_a_form(self):
        for text in ("127.0.0.1:8080", "ftp://x", "http://", "http://x/v1"):
            with self.assertRaises(ValueError):
                mediarelay.Relay(text, None)

    def test_a_relay_that_is_not_there_is_told_apart_from_a_refusal(self):
        with self.assertRaises(mediarelay.Unreachable):
            mediarelay.Relay("http://127.0.0.1:9", mediarelay.Key("k", "s" * 32)).rooms()

    def test_a_room_is_followed_from_its_snapshot(self):
        room = self.ring("a8", "b8")
        self.ring("a9", "b9")
        events = self.client.events(after=room["seq"], room=room["id"])
        self.client.end(room["id"], "busy", "b8")
        found = []
        for event in events:
            found.append(event["type"])
            if event["type"] == "room.closed":
                events.close()
        self.assertEqual(found, ["call.ended", "room.closed"])

    def test_following_ends_at_once_when_it_is_closed(self):
        events = self.client.events()
        thread = threading.Thread(target=lambda: list(events))
        thread.start()
        while events.openings == 0:
            time.sleep(0.01)
        started = time.monotonic()
        events.close()
        thread.join(5)
        self.assertFalse(thread.is_alive())
        self.assertLess(time.monotonic() - started, 1)

    def test_no_event_is_lost_or_doubled_by_kills_of_the_relay(self):
        start = self.client.rooms()[1]
        events, found = self.client.events(after=start), []
        thread = threading.Thread(target=lambda: found.extend(events))
        thread.start()
        rooms = []
        for kill in range(3):
            while events.openings <= kill:
                time.sleep(0.01)
            for index in range(10):
                rooms.append(self.ring(f"k{len(rooms)}", "many", allowParallel=True)["id"])
                if index % 2:
                    self.client.end(rooms[-1], "rejected", "many")
            self.node.kill_control()
            self.node.start()
        expected, _ = self.client.event_page(after=start, limit=1000)
        deadline = time.monotonic() + 10
        while len(found) < len(expected) and time.monotonic() < deadline:
            time.sleep(0.02)
        events.close()
        thread.join(5)
        self.assertEqual([event["seq"] for event in found], list(range(start + 1, start + 1 + len(expected))))
        self.assertEqual(events.openings, 4)
        self.assertEqual(events.cursor, found[-1]["seq"])
        self.assertEqual(
            [event["roomId"] for event in found if event["type"] == "call.initiated"], rooms)
        self.client.logout("many")


def run():
    """All of it; what the interop suite prints."""
    result = unittest.TextTestRunner(verbosity=2, stream=sys.stdout).run(
        unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]))
    if not result.wasSuccessful():
        names = ", ".join(str(case) for case, _ in result.failures + result.errors)
        raise AssertionError(f"{len(result.failures) + len(result.errors)} of {result.testsRun} tests failed: {names}")
    return f"{result.testsRun} tests"
