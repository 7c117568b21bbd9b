#!/usr/bin/env python3
"""The same attacks against other servers: Debian's Janus and rtpengine, each with a real client in a call, on loopback.

It shows that the suite sees what it looks for, and what others do where this relay is silent. Usage: foreign.py [janus|rtpengine]…
(root; `apt install janus rtpengine-daemon`). Each probe says what was sent, what went to strangers and whether the call went on;
"held" is what `make attack` demands of this relay. Last line "foreign: N probes, N held, N not; N as recorded". Fails where a server
did not come up or does other than what is recorded here of its Debian version. Not part of `make test`: the packages are others' business.
"""
import asyncio
import itertools
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]
sys.dont_write_bytecode = True

ADDRESS = "10.99.0.1"
# What is known not to hold of Debian 12's versions: Janus's picture stops while strangers' STUN comes; rtpengine answers strangers,
# passes on what was sent before, and lets a stranger's ClientHello keep a call from coming up.
RECORDED = {
    ("janus", "T02 malformed STUN"), ("janus", "T10 requests without credentials"), ("janus", "T12 right user name, wrong key"),
    ("rtpengine", "T02 malformed STUN"), ("rtpengine", "T10 requests without credentials"),
    ("rtpengine", "T12 right user name, wrong key"), ("rtpengine", "T15 the client's packets from elsewhere"),
    ("rtpengine", "T52 replay in the client's address"), ("rtpengine", "T16 a client's check from a third host"),
    ("rtpengine", "T30 ClientHello race"),
}


class Server:
    """A server's process, as far as `WrtcClient` asks anything of a relay. `port`: of its media, once it has answered."""

    def __init__(self, name, *command):
        self.log = open(os.path.join(self.folder, "log"), "wb")
        self.process = subprocess.Popen([name, *command], stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        # What came out at the far side a second time, where there is one to look at.
        self.twice = 0
        # Called with the port before the client hears of it.
        self.is_answering = lambda port: None

    def prepare(self, _room, _bearer, sdp, _state):
        answer = self.answer(sdp)
        audio = answer[answer.index("m=audio"):]
        self.port = int(re.search(rf"{ADDRESS} (\d+) typ host", audio)[1])
        self.is_answering(self.port)
        return "", answer

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Janus(Server):
    """Its echo test: what the client sends comes back."""

    http = "http://127.0.0.1:8088/janus"

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="janus-")
        pathlib.Path(self.folder, "janus.jcfg").write_text('general: { }\nmedia: { rtp_port_range = "20000-20400" }\n')
        pathlib.Path(self.folder, "janus.transport.http.jcfg").write_text(
            'general: { json = "plain"\n base_path = "/janus"\n http = true\n port = 8088\n ip = "127.0.0.1" }\n')
        pathlib.Path(self.folder, "janus.plugin.echotest.jcfg").write_text("general: { }\n")
        super().__init__("janus", "-F", self.folder)

    def ask(self, path="", body=None):
        data = None if body is None else json.dumps({"transaction": "x", **body}).encode()
        request = urllib.request.Request(self.http + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def answer(self, sdp):
        until = time.monotonic() + 10
        while True:
            try:
                session = self.ask(body={"janus": "create"})["data"]["id"]
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
        handle = self.ask(f"/{session}", {"janus": "attach", "plugin": "janus.plugin.echotest"})["data"]["id"]
        self.ask(f"/{session}/{handle}", {
            "janus": "message", "body": {"audio": True, "video": True}, "jsep": {"type": "offer", "sdp": sdp}})
        for _ in range(5):
            event = self.ask(f"/{session}")
            if "jsep" in event:
                return event["jsep"]["sdp"]
        raise AssertionError("no answer came")

    async def heard(self, client):
        """How much of the client's media has come through so far."""
        return (await client.totals())["framesDecoded"]


class RTPEngine(Server):
    """Between the client and a plain RTP socket of ours, which sees what passes."""

    numbers = itertools.count(1)

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="rtpengine-")
        self.control = ("127.0.0.1", 2223)
        super().__init__(
            "rtpengine", "--foreground", "--log-stderr", "--table=-1", f"--interface={ADDRESS}", "--listen-ng=127.0.0.1:2223",
            "--port-min=30000", "--port-max=30400", f"--pidfile={self.folder}/pid")
        self.far = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.far.bind((ADDRESS, 0))
        self.far.setblocking(False)
        self.count, self.seen = 0, set()

    def ask(self, **words):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.settimeout(0.5)
            end.connect(self.control)
            text = f"{next(self.numbers)} ".encode() + bencoded(words)
            until = time.monotonic() + 10
            while True:
                try:
                    end.send(text)
                    answer = end.recv(65536)
                    break
                except OSError:
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.1)
        found, _ = bdecoded(answer[answer.index(b" ") + 1:])
        if found[b"result"] != b"ok":
            raise AssertionError(f"rtpengine says {found}")
        return found.get(b"sdp", b"").decode()

    def answer(self, sdp):
        call = {"call-id": f"call-{next(self.numbers)}", "from-tag": "a"}
        self.ask(command="offer", sdp=sdp, ICE="remove", DTLS="off", **{"transport-protocol": "RTP/AVP", "rtcp-mux": ["demux"]}, **call)
        audio = re.search(r"^m=audio \d+ \S+ (.+)$", sdp, re.MULTILINE)[1].split()[0]
        lines = ["v=0", f"o=- 1 1 IN IP4 {ADDRESS}", "s=-", f"c=IN IP4 {ADDRESS}", "t=0 0",
                 f"m=audio {self.far.getsockname()[1]} RTP/AVP {audio}", f"a=rtpmap:{audio} opus/48000/2", "a=sendrecv",
                 "m=video 0 RTP/AVP 96", ""]
        return self.ask(command="answer", sdp="\r\n".join(lines), **{"to-tag": "b"}, **call)

    async def heard(self, _client):
        while True:
            try:
                data = self.far.recv(2048)
            except BlockingIOError:
                return self.count
            if len(data) > 12 and data[0] >> 6 == 2 and not 64 <= data[1] & 127 < 96:
                self.count += 1
                self.twice += data[2:8] in self.seen
                self.seen.add(data[2:8])

    def stop(self):
        super().stop()
        self.far.close()


def bencoded(value):
    if isinstance(value, dict):
        return b"d" + b"".join(bencoded(key) + bencoded(value[key]) for key in sorted(value)) + b"e"
    if isinstance(value, list):
        return b"l" + b"".join(map(bencoded, value)) + b"e"
    data = value.encode() if isinstance(value, str) else value
    return b"%d:%s" % (len(data), data)


def bdecoded(data):
    """A value and what is behind it."""
    if data[:1] == b"i":
        end = data.index(b"e")
        return int(data[1:end]), data[end + 1:]
    if data[:1] in b"dl":
        rest, found = data[1:], []
        while rest[:1] != b"e":
            value, rest = bdecoded(rest)
            found.append(value)
        return (dict(zip(found[::2], found[1::2])) if data[:1] == b"d" else found), rest[1:]
    colon = data.index(b":")
    end = colon + 1 + int(data[:colon])
    return data[colon + 1:end], data[end:]


class Probes:
    """One server's call and what is sent at it."""

    def __init__(self, name, server):
        self.name, self.server, self.held, self.rows = name, server, 0, []

    async def run(self):
        import vectors
        import wire
        import stun
        from peer import credentials, payload_types
        from wrtc_client import WrtcClient
        # The client's own addresses; it takes either.
        wire.VICTIMS = (ADDRESS, "127.0.0.1", "10.99.0.9")
        self.client = WrtcClient(self.server, "", "alice", "")
        await self.client.prepare()
        until = time.monotonic() + 10
        while await self.server.heard(self.client) == 0:
            if time.monotonic() > until:
                raise AssertionError(f"{self.name}: no media came through")
            await asyncio.sleep(0.1)
        answer = self.client.pc.remote_description.sdp
        self.wire = wire.Wire(self.server.port, payload_types(answer)["audio"])
        (theirs, password), own = credentials(answer), credentials(self.client.pc.local_description.sdp)[0]
        user = f"{theirs}:{own}"
        before = await self.server.heard(self.client)
        self.wire.keep(True)
        await asyncio.sleep(1.5)
        kept = [(peer, data) for peer, data in self.wire.keep(False) if data and data[0] & 0xC0 == 0x80]
        mine = [data for _, data in kept]
        # Heard in a second while nobody attacks.
        self.usual = (await self.server.heard(self.client) - before) / 1.5
        await self.probe("T01 first bytes", [bytes([first]) + bytes(30) for first in range(256)])
        await self.probe("T02 malformed STUN", vectors.datagrams("stun", wanted=lambda row: row["expect"] == "drop"))
        await self.probe("T10 requests without credentials", vectors.datagrams("stun", wanted=lambda row: row["name"].startswith(
            ("browser-", "no-mi", "no-username", "unknown-ufrag"))))
        await self.probe("T12 right user name, wrong key", [stun.check(user, os.urandom(12).hex()) for _ in range(64)])
        await self.probe("T15 RTP spray", [vectors.named("srtp_packets", "rtpengine-bleed-spray")])
        await self.probe("T15 the client's packets from elsewhere", mine)
        await self.probe("T30 hostile DTLS records", vectors.datagrams("dtls", wanted=lambda row: not row["name"].startswith("use-srtp")))
        await self.replay(kept)
        await self.aim(stun.check(user, password, priority=0x7FFFFFFF))
        await self.client.close()
        self.wire.stop()
        await self.race("T30 no race: the same calls without it", None)
        await self.race("T30 ClientHello race", vectors.named("dtls", "clienthello-null-cipher-race"))

    def tell(self, probe, has_held, said):
        self.rows.append((probe, has_held))
        as_recorded = "" if has_held == ((self.name, probe) not in RECORDED) else "; other than recorded"
        print(f"{'held' if has_held else 'NOT':4} {self.name:9} {probe:42} {said}{as_recorded}", flush=True)

    async def begin(self):
        self.server.twice = 0
        self.began, self.before = time.monotonic(), await self.server.heard(self.client)

    async def went_on(self):
        """Whether at least half of what is usual came through since `begin`, a second after the attack's end; and how much did."""
        await asyncio.sleep(1)
        heard = await self.server.heard(self.client) - self.before
        return heard > self.usual * (time.monotonic() - self.began) / 2, f"{heard / (time.monotonic() - self.began):.0f} heard a second"

    async def probe(self, name, payloads, count=2_000):
        """From strangers: nothing goes to them, the call goes on."""
        import flood
        before = sum(self.wire.to_others().values())
        await self.begin()
        draw = flood.strangers()
        packets = [flood.packet(one, next(draw), (ADDRESS, self.server.port)) for one in payloads]
        sent, _ = await flood.run(packets, 2_000, count)
        went_on, heard = await self.went_on()
        answered = sum(self.wire.to_others().values()) - before
        total = sum(map(len, payloads)) * count // len(payloads)
        self.tell(name, answered == 0 and went_on and self.server.twice == 0 and self.server.process.poll() is None,
                  f"{sent} sent, {answered} bytes to strangers ({answered / total:.2f} for each byte), {self.server.twice} passed on, {heard}")

    async def replay(self, kept):
        """What the client sent, again in its own address: nothing comes through twice."""
        import flood
        await self.begin()
        port = kept[0][0][1]
        came = len(self.wire.audio_out[port])
        packets = [flood.packet(data, peer, (ADDRESS, self.server.port)) for peer, data in kept]
        sent, seconds = await flood.run(packets, 2_000, len(packets))
        went_on, heard = await self.went_on()
        # An echo has no far side to count at: more than 50 audio packets a second came back.
        back = len(self.wire.audio_out[port]) - came
        twice = self.server.twice if isinstance(self.server, RTPEngine) else max(0, back - round(50 * (seconds + 1.3)))
        self.tell("T52 replay in the client's address", twice == 0 and went_on, f"{sent} sent, {twice} passed on again, {heard}")

    async def aim(self, check):
        """A valid, nominating check from a host that never answers: no media goes there, and little else."""
        import flood
        before = self.wire.to("127.0.0.77")
        await self.begin()
        await flood.run([flood.packet(check, ("127.0.0.77", 7777), (ADDRESS, self.server.port))], 1_000, 1)
        await asyncio.sleep(2)
        went_on, heard = await self.went_on()
        sent, packets = (now - then for now, then in zip(self.wire.to("127.0.0.77"), before))
        media = self.wire.media_to[("127.0.0.77", 7777)]
        self.tell("T16 a client's check from a third host", media == 0 and sent <= 3 * len(check) and went_on,
                  f"{len(check)} bytes sent, {sent} bytes in {packets} datagrams to it, {media} of media, {heard}")

    async def race(self, name, hello, calls=5):
        """A stranger's ClientHello 1,000 times a second from before the answer until connected."""
        import flood
        from wrtc_client import WrtcClient
        loop, connected, slowest, floods = asyncio.get_running_loop(), 0, 0.0, []

        def begin(port):
            draw = flood.strangers()
            packets = [flood.packet(hello, next(draw), (ADDRESS, port)) for _ in range(64)]
            floods.append(asyncio.run_coroutine_threadsafe(flood.run(packets, 1_000, 4_000), loop))
            time.sleep(0.3)

        self.server.is_answering = begin if hello else lambda port: None
        for _ in range(calls):
            client = WrtcClient(self.server, "", "bob", "")
            try:
                await client.prepare()
                connected += 1
                slowest = max(slowest, client.connect_seconds)
            except AssertionError:
                pass
            await client.close()
            while floods:
                await asyncio.to_thread(floods.pop().result)
        self.tell(name, connected == calls, f"{connected} of {calls} calls connect, slowest {slowest * 1000:.0f} ms")


SERVERS = {"janus": Janus, "rtpengine": RTPEngine}


async def attack(names):
    rows, failed = [], 0
    for name in names:
        version = subprocess.run(["dpkg-query", "-W", "-f=${Version}", {"rtpengine": "rtpengine-daemon"}.get(name, name)],
                                 capture_output=True, text=True).stdout
        print(f"\n== {name} {version}", flush=True)
        server = SERVERS[name]()
        probes = Probes(name, server)
        try:
            await probes.run()
        except Exception:  # noqa: BLE001 — the next server is worth a try
            traceback.print_exc()
            print(pathlib.Path(server.folder, "log").read_text(errors="replace")[-2000:])
            failed += 1
        finally:
            server.stop()
        rows += [(name, *row) for row in probes.rows]
    held = sum(row[2] for row in rows)
    recorded = sum(has_held == ((name, probe) not in RECORDED) for name, probe, has_held in rows)
    print(f"foreign: {len(rows)} probes, {held} held, {len(rows) - held} not; {recorded} as recorded")
    return 1 if failed or recorded < len(rows) else 0


def main():
    from run import isolation, set_up_network
    names = [name for name in sys.argv[1:] if name in SERVERS] or list(SERVERS)
    if "--inside" in sys.argv:
        set_up_network("veth")
        code = 1
        try:
            code = asyncio.run(attack(names))
        except Exception:  # noqa: BLE001 — the client's threads would keep the process
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(code)
    for name in names:
        if not shutil.which(name):
            sys.exit(f"foreign.py: {name} is not installed (apt install janus rtpengine-daemon)")
    return subprocess.run([*isolation(), sys.executable, str(HERE / "foreign.py"), "--inside", *names],
                          env={**os.environ, "PYTHONUNBUFFERED": "1"}).returncode


if __name__ == "__main__":
    sys.exit(main())
