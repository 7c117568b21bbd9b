"""Attacks on who may do what over the API: tokens, identities, open doors, guesses, too many sessions: T72–T76."""
import asyncio
import base64
import hashlib
import hmac
import http.client
import json
import re
import statistics
import time

import vectors
from api_attacks import GROWTH, address
from relay import ADMIN, KEY_ID, SECRET, participant, token
from scene import RawSession, Sent


def forged(header, claims, secret=None):
    def part(value):
        text = value if isinstance(value, bytes) else json.dumps(value).encode()
        return base64.urlsafe_b64encode(text).rstrip(b"=")

    text = part(header) + b"." + part(claims)
    signature = b"" if secret is None else hmac.new(secret.encode(), text, hashlib.sha256).digest()
    return (text + b"." + part(signature)).decode()


async def tokens(scene):
    """forged, expired, unsigned, foreign and confused tokens at every kind of path; unknown rooms beside wrong ones"""
    room, faults = scene.room, []
    now = int(time.time())
    header = {"alg": "HS256", "typ": "JWT", "kid": KEY_ID}
    claims = {"aud": "media-relay", "sub": "alice", "device": "test", "room": room, "exp": now + 600}
    good = participant(room, "alice")
    # Expired, a participant's token still ends and reads what it began: 409 to an end that is none.
    expired = forged(header, {**claims, "exp": now - 3_600}, SECRET)
    bad = [
        "", "x", "a.b.c", good[:-1], good[:-4] + "AAAA", good + "A", good.rsplit(".", 1)[0] + ".",
        forged({**header, "alg": "none"}, claims), forged({**header, "alg": "None"}, claims, SECRET),
        forged({**header, "alg": "HS512"}, claims, SECRET), forged({**header, "alg": "ES256"}, claims, SECRET),
        forged({**header, "kid": "other"}, claims, SECRET), forged({**header, "crit": ["exp"]}, claims, SECRET),
        forged(header, claims, "another secret, also of 32 bytes or more"), forged(header, claims, ""),
        expired, forged(header, {**claims, "exp": now + 10**9}, SECRET),
        forged(header, {**claims, "exp": str(now + 600)}, SECRET), forged(header, {**claims, "aud": "other"}, SECRET),
        forged(header, {**claims, "aud": None}, SECRET), forged(header, {**claims, "room": "*"}, SECRET),
        forged(header, {**claims, "sub": ""}, SECRET), forged(header, {**claims, "nbf": now + 3_600}, SECRET),
        forged(header, json.dumps(claims)[:-1].encode() + b', "room": "' + room.encode() + b'"}', SECRET),
        *(row["token"] for row in vectors.rows("tokens")),
    ]
    paths = [("POST", f"/v1/rooms/{room}/sessions?state=prepared"), ("POST", f"/v1/rooms/{room}/end"), ("POST", "/v1/rooms"),
             ("POST", f"/v1/rooms/{room}/answer")]
    count = 0
    for text in bad:
        for method, path in paths:
            try:
                answer = scene.relay.ask(method, path, {"status": "cancelled"}, text)
            except ValueError:
                # Python's client does not send it.
                continue
            count += 1
            if answer.status not in (400, 401, 403, 404, 431) and not (text == expired and answer.status == 409):
                faults.append(f"{method} {path} is {answer.status} with the token {text[:30]}…")
    # A token for one room opens no other, and a room of somebody else looks like one that is not there.
    mine = participant("somewhere-else", "alice")
    answers = [scene.relay.ask("GET", f"/v1/rooms/{name}", None, mine) for name in (room, "no-such-room")]
    if answers[0].status != answers[1].status or strip(answers[0].body) != strip(answers[1].body):
        faults.append("a foreign room is told apart from none")
    times = [[], []]
    for _ in range(60):
        for index, name in enumerate((room, "no-such-room")):
            began = time.perf_counter()
            scene.relay.ask("GET", f"/v1/rooms/{name}", None, mine)
            times[index].append(time.perf_counter() - began)
    medians = [statistics.median(one) for one in times]
    if abs(medians[0] - medians[1]) > 0.25 * max(medians):
        faults.append(f"the answers take {medians[0] * 1000:.2f} and {medians[1] * 1000:.2f} ms")
    return Sent(count, note=f"all refused; foreign room {medians[0] * 1000:.2f} ms, none {medians[1] * 1000:.2f} ms", faults=faults,
                growth=GROWTH)


def strip(body):
    """A problem document without what names the path asked for."""
    try:
        return {key: value for key, value in json.loads(body).items() if key != "instance"}
    except ValueError:
        return body


async def identities(scene):
    """another participant's id in a body, fields that stand twice, one user's session under another's token"""
    faults = []
    session = await asyncio.to_thread(RawSession, scene)
    other = participant(session.room, "other")
    for method, path in (("POST", session.location + "/join"), ("DELETE", session.location)):
        answer = scene.relay.ask(method, path, None, other)
        if answer.status < 400:
            faults.append(f"{method} of another's session is {answer.status}")
    ring = scene.relay.create_room(kind="peer", media="audio", ring={"caller": "alice", "callees": ["bob"]})
    for bearer, body in (
            (participant(ring, "mallory"), {"status": "cancelled", "uid": "alice"}),
            (participant(ring, "bob"), {"status": "cancelled", "uid": "alice"})):
        answer = scene.relay.ask("POST", f"/v1/rooms/{ring}/end", body, bearer)
        if answer.status < 400:
            faults.append(f"an end in another's name is {answer.status}")
    twice = b'{"status": "declined", "status": "cancelled"}'
    answer = scene.relay.ask("POST", f"/v1/rooms/{ring}/end", twice, participant(ring, "bob"), {"Content-Type": "application/json"})
    if answer.status != 400:
        faults.append(f"a field that stands twice is {answer.status}")
    answer = scene.relay.ask("POST", "/v1/rooms", b'{"kind": "peer", "kind": "group"}', token(ADMIN), {"Content-Type": "application/json"})
    if answer.status != 400:
        faults.append(f"a room with two kinds is {answer.status}")
    if scene.relay.room(ring)["status"] not in ("ringing", "initiated"):
        faults.append(f"the call is {scene.relay.room(ring)['status']}")
    scene.relay.admin("DELETE", f"/v1/rooms/{ring}")
    await asyncio.to_thread(session.close)
    return Sent(6, note="all refused", faults=faults, growth=GROWTH)


OPEN = {"/healthz", "/readyz", "/v1/openapi.json", "/demo/session", "/", "/demo"}


async def open_doors(scene):
    """every path and method of the contract, and some that are none, without a token"""
    contract = scene.relay.ask("GET", "/v1/openapi.json").expect(200).json
    faults, count = [], 0
    for path in [*contract["paths"], "/v1", "/v1/", "/admin", "/v1/node/drain", "/../etc/passwd", "/v1/rooms/%2e%2e/x"]:
        concrete = re.sub(r"\{\w+\}", scene.room, path)
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            found = await asyncio.to_thread(status, scene, method, concrete)
            count += 1
            allowed = (401, 404, 405) if path not in OPEN else (200, 400, 401, 404, 405, 415)
            if found not in allowed:
                faults.append(f"{method} {path} without a token is {found}")
    return Sent(count, note="401, 404 or 405", faults=faults, growth=GROWTH)


def status(scene, method, path):
    """An answer's status; what is behind its head may never end."""
    host, port = address(scene)
    connection = http.client.HTTPConnection(host, port, timeout=10)
    try:
        connection.request(method, path, None if method == "GET" else b"{}", {"Content-Type": "application/json"})
        return connection.getresponse().status
    finally:
        connection.close()


async def guessing(scene):
    """10,000 guessed names of rooms and sessions under a good token of another room"""
    mine, count, seen = participant("somewhere", "alice"), 10_000 if scene.is_long else 1_000, {}
    host, port = address(scene)
    connection = http.client.HTTPConnection(host, port, timeout=10)

    def guess():
        for index in range(count):
            connection.request("GET", f"/v1/rooms/room-{index}", headers={"Authorization": f"Bearer {mine}"})
            answer = connection.getresponse()
            answer.read()
            seen[answer.status] = seen.get(answer.status, 0) + 1

    began = time.monotonic()
    await asyncio.to_thread(guess)
    connection.close()
    seconds = time.monotonic() - began
    faults = [f"answers were {seen}"] if set(seen) - {404, 429} or not seen.get(429) else []
    if seen.get(404, 0) > 100 * (seconds + 2):
        faults.append(f"{seen[404]} guesses in {seconds:.1f} s were looked at")
    return Sent(count, note=f"{seen}", faults=faults, growth=GROWTH)


async def too_many_sessions(scene):
    """one user prepares session after session, another asks 2,000 times a second"""
    sessions, faults = [], []
    refusal = None
    for _ in range(8):
        try:
            sessions.append(await asyncio.to_thread(RawSession, scene, "127.0.0.71", "greedy"))
        except AssertionError as error:
            refusal = str(error)
            break
    if len(sessions) != 5 or "status 429" not in (refusal or ""):
        faults.append(f"{len(sessions)} sessions, then {refusal}")
    for session in sessions:
        await asyncio.to_thread(session.close)
    return Sent(8, note="429 after five", faults=faults, growth=GROWTH)
