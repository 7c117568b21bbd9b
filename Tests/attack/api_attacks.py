"""Attacks on the API over TCP: framing, bodies, limits, slowness, and what the relay's listeners and logs give away: T77–T89.

The victims' media runs meanwhile and must not feel it.
"""
import asyncio
import os
import pathlib
import re
import socket
import time

import vectors
from relay import ADMIN, SECRET, participant, token
from scene import RawSession, Sent

GROWTH = 8192
GOOD = b"GET /healthz HTTP/1.1\r\nHost: relay.test\r\n\r\n"


def address(scene):
    host, port = scene.relay.http.rsplit(":", 1)
    return host, int(port)


def exchange(scene, data, seconds=0.4):
    """Sends bytes on a connection of their own; what came back until the relay closed it or said no more, and whether it closed."""
    with socket.create_connection(address(scene), timeout=2) as end:
        end.settimeout(seconds)
        try:
            end.sendall(data)
        except OSError:
            pass
        found = b""
        try:
            while part := end.recv(65536):
                found += part
            return found, True
        except TimeoutError:
            return found, False
        except OSError:
            return found, True


def statuses(answer):
    return [int(one) for one in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


BODIES = [
    b"", b" ", b"null", b"1", b'"x"', b"[]", b"{", b"}", b"{]", b'{"kind"}', b'{"kind":}', b'{"kind":"peer",}', b"{'kind':'peer'}",
    b'\xef\xbb\xbf{"kind":"peer"}', b'{"kind":"peer"} x', b'{"kind":"peer"}{"kind":"peer"}', b'{"kind":"\xff\xfe"}', b'{"kind":"\xc0\x80"}',
    b'{"kind":"\\ud800"}', b'{"kind":"\\u12"}', b'{"kind":"\\x41"}', b'{"kind":"a\nb"}', b'{"kind":1e400}', b'{"maxParticipants":1e400}',
    b'{"maxParticipants":9223372036854775808}', b'{"maxParticipants":-1}', b'{"maxParticipants":01}', b'{"maxParticipants":+1}',
    b'{"maxParticipants":NaN}', b'{"maxParticipants":Infinity}', b'{"maxParticipants":0x10}', b'{"maxParticipants":1.5}',
    b'{"kind":"peer","kind":"peer"}', b'{"k\\u0069nd":"peer","kind":"peer"}', b'{"kind":true}', b'{"kind":null,}', b'{"kind":"room"}',
    b'{"ring":[]}', b'{"ring":{"caller":"a"}}', b'{"ring":{"caller":"a","callees":"b"}}', b'{"metadata":' + b"[" * 40 + b"]" * 40 + b"}",
    b'{"metadata":' + b"[" * 30_000, b'{"a":' * 5_000, b'{"metadata":"' + b"x" * 60_000 + b'"}', b"\x00" * 100, bytes(range(256)),
]


async def bodies(scene):
    """46 bodies that are no JSON or none that the API takes, on one connection, beside good calls on another"""
    faults, bearer, good = [], token(ADMIN), 0
    for body in BODIES:
        answer = scene.relay.ask("POST", "/v1/rooms", body, bearer, {"Content-Type": "application/json"})
        if answer.status not in (400, 413, 415, 422):
            # An empty body is a room with nothing said about it: a good one.
            if not (answer.status == 201 and body in (b"",)):
                faults.append(f"{body[:30]!r} is {answer.status}")
        room = scene.relay.create_room(kind="peer", media="audio")
        good += scene.relay.admin("DELETE", f"/v1/rooms/{room}").status == 200
    if good != len(BODIES):
        faults.append(f"of the good ones beside them {good} were served")
    return Sent(len(BODIES), note="400, and the good ones beside them served", faults=faults, growth=GROWTH)


async def limits(scene):
    """headers, targets, bodies, fields and an SDP beyond their limits"""
    bearer = token(ADMIN)
    line = f"Authorization: Bearer {bearer}\r\nHost: x\r\n".encode()
    cases = {
        "target of 9,000": (b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\n" + line + b"\r\n", {414}),
        "header of 17 KiB": (b"GET /v1/rooms HTTP/1.1\r\n" + line + b"X: " + b"a" * 17_000 + b"\r\n\r\n", {431}),
        "101 fields": (b"GET /v1/rooms HTTP/1.1\r\n" + line + b"".join(b"X%d: 1\r\n" % index for index in range(101)) + b"\r\n", {431}),
        "body of 64 KiB + 1": (b"POST /v1/rooms HTTP/1.1\r\n" + line + b"Content-Length: 65537\r\n\r\n", {413}),
        "a length of 2^63": (b"POST /v1/rooms HTTP/1.1\r\n" + line + b"Content-Length: 9223372036854775808\r\n\r\n", {400, 413}),
    }
    faults = []
    for what, (data, wanted) in cases.items():
        answer, has_closed = exchange(scene, data)
        if not statuses(answer) or statuses(answer)[0] not in wanted or not has_closed:
            faults.append(f"a {what} is {statuses(answer)}, closed: {has_closed}")
    room = scene.relay.create_room(kind="peer", media="video")
    bearer = participant(room, "alice")
    for what, sdp in (("an SDP of 33 KiB", "v=0\r\n" + "a=x:" + "y" * 33_000), ("65 m-lines", "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n" + (
            "m=audio 9 UDP/TLS/RTP/SAVPF 111\r\n" * 65)), ("5,000 lines", "v=0\r\n" + "a=x\r\n" * 5_000)):
        answer = scene.relay.ask("POST", f"/v1/rooms/{room}/sessions?state=prepared", sdp, bearer, {"Content-Type": "application/sdp"})
        if answer.status not in (400, 406, 413, 422):
            faults.append(f"{what} is {answer.status}")
    scene.relay.admin("DELETE", f"/v1/rooms/{room}")
    return Sent(len(cases) + 3, note="413, 414, 431, 400", faults=faults, growth=GROWTH)


async def framing(scene):
    """every request of the vectors that is smuggling or broken framing, each with a good request behind it"""
    faults, count = [], 0
    for row in vectors.rows("http_requests"):
        data = bytes.fromhex(row["hex"]) if "hex" in row else b"".join(
            bytes.fromhex(text) * times for text, times in row["parts"]) if "parts" in row else None
        if data is None or not re.match(r"(400|413|414|431|501|505)( or \d+)?,? (and close|close)", row["expect"]):
            continue
        count += 1
        answer, has_closed = exchange(scene, data + GOOD)
        found = statuses(answer)
        if len(found) > 1 or (found and found[0] < 400) or not has_closed:
            faults.append(f"{row['name']}: {found}, closed: {has_closed}")
    return Sent(count, note="one refusal each, then closed", faults=faults, growth=GROWTH)


async def splitting(scene):
    """CR LF, escape sequences and line separators in paths, ids, queries and fields: in no header and no log line"""
    faults, count = [], 0
    marks = ("%0d%0aX-Injected:%201", "%0aX-Injected:1", "%1b%5b31mred", "%e2%80%a8X-Injected", "..%2f..%2f", "%00")
    for mark in marks:
        for path in (f"/v1/rooms/{mark}", f"/v1/rooms?cursor={mark}", f"/v1/rooms/{scene.room}/sessions/{mark}", f"/{mark}"):
            data = f"GET {path} HTTP/1.1\r\nHost: x\r\nOrigin: http://a{mark}\r\nAuthorization: Bearer {token(ADMIN)}\r\n\r\n".encode()
            answer, _ = exchange(scene, data, 0.15)
            count += 1
            head = answer.split(b"\r\n\r\n")[0]
            if b"\nX-Injected" in head or b"\x1b" in answer:
                faults.append(f"{path} came back in a header")
            if statuses(answer) and statuses(answer)[0] >= 500:
                faults.append(f"{path} is {statuses(answer)[0]}")
    return Sent(count, note="nothing comes back", faults=faults, growth=GROWTH)


async def slow_clients(scene):
    """300 connections that send a header a byte at a time, a body that does not come, or read nothing, while calls are set up"""
    ends = []
    for index in range(300):
        end = socket.create_connection(address(scene), timeout=2)
        end.setblocking(False)
        head = b"POST /v1/rooms HTTP/1.1\r\nHost: x\r\n"
        end.send((head, head + b"Content-Length: 100\r\n\r\n{", GOOD * 20)[index % 3])
        ends.append(end)
    slowest, faults = 0.0, []
    until = time.monotonic() + (60 if scene.is_long else 7)
    while time.monotonic() < until:
        for end in ends[::3]:
            try:
                end.send(b"X")
            except OSError:
                pass
        began = time.monotonic()
        session = await asyncio.to_thread(RawSession, scene)
        answer = await session.ask(session.check())
        slowest = max(slowest, time.monotonic() - began)
        if answer is None:
            faults.append("a client's check was not answered meanwhile")
        await asyncio.to_thread(session.close)
        await asyncio.sleep(0.25)
    closed = 0
    for end in ends[::3]:
        try:
            while end.recv(65536):
                pass
            closed += 1
        except BlockingIOError:
            pass
        except OSError:
            closed += 1
        end.close()
    for end in ends:
        end.close()
    if closed < 100:
        faults.append(f"of 100 heads that did not end {closed} were closed")
    if slowest > 1:
        faults.append(f"a session took {slowest:.2f} s to set up")
    return Sent(300, note=f"slowest session meanwhile {slowest * 1000:.0f} ms", faults=faults, growth=GROWTH * 2)


async def listeners(scene):
    """what answers in the relay's network: the media port (UDP and TCP), the API, nothing else; dumps are forbidden"""
    faults, found = [], set()
    for protocol, state in (("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")):
        owned = owned_sockets(scene)
        for line in pathlib.Path(f"/proc/{scene.processes[0][0]}/net/{protocol}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == state and fields[9] in owned:
                found.add((protocol, int(fields[1].rsplit(":", 1)[1], 16)))
    expected = {("udp", scene.target[1]), ("tcp", scene.target[1]), ("tcp", address(scene)[1])}
    if found != expected:
        faults.append(f"the relay listens on {sorted(found)}")
    for pid, _ in scene.processes:
        text = pathlib.Path(f"/proc/{pid}/limits").read_text()
        if not re.search(r"^Max core file size\s+0\s+0", text, re.MULTILINE):
            faults.append(f"process {pid} may dump core")
    return Sent(0, note=", ".join(f"{name} {port}" for name, port in sorted(found)), faults=faults)


def owned_sockets(scene):
    found = set()
    for pid, _ in scene.processes:
        for entry in os.listdir(f"/proc/{pid}/fd"):
            try:
                name = os.readlink(f"/proc/{pid}/fd/{entry}")
            except OSError:
                continue
            if name.startswith("socket:["):
                found.add(name[8:-1])
    return found


async def secrets(scene):
    """everything that the suite knows as a secret, looked for in the log and the metrics"""
    log = pathlib.Path(scene.relay.log_path).read_text(errors="replace")
    text = log + scene.relay.admin("GET", "/metrics").body.decode()
    faults = [f"a secret is in the log: {secret[:6]}…" for secret in {SECRET, *scene.secrets} if secret in text]
    for what, pattern in (("an SDP line", r"a=(ice-pwd|fingerprint|candidate)"), ("a token", r"eyJ[A-Za-z0-9_-]{10,}\."),
                          ("a client's address", r"127\.0\.0\.(6[6-9]|7\d)"), ("an escape character", r"\x1b")):
        if re.search(pattern, text):
            faults.append(f"{what} is in the log")
    lines = log.count("\n")
    if lines > 200:
        faults.append(f"the log has {lines} lines")
    return Sent(0, note=f"{len(scene.secrets) + 1} secrets, {lines} lines of log", faults=faults)
