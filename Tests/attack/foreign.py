#!/usr/bin/env python3
"""The strangers' classes of the catalogue against another server: Debian's Janus, with a real client in its echo test.

It shows that the suite sees what it looks for: Janus answers checks that do not verify. Usage: foreign.py (root; `apt install janus`).
Last line "foreign: N of N classes held". Not part of `make test`: the package is Janus's business, not ours.
"""
import asyncio
import json
import os
import pathlib
import re
import shutil
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
HTTP = "http://127.0.0.1:8088/janus"


class Janus:
    """The server, as far as `WrtcClient` asks anything of a relay."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="janus-")
        pathlib.Path(self.folder, "janus.jcfg").write_text('general: { }\nmedia: { rtp_port_range = "20000-20100" }\n')
        pathlib.Path(self.folder, "janus.transport.http.jcfg").write_text(
            'general: { json = "plain"\n base_path = "/janus"\n http = true\n port = 8088\n ip = "127.0.0.1" }\n')
        pathlib.Path(self.folder, "janus.plugin.echotest.jcfg").write_text("general: { }\n")
        self.log = open(os.path.join(self.folder, "log"), "wb")
        self.process = subprocess.Popen(["janus", "-F", self.folder], stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)

    def ask(self, path="", body=None):
        data = None if body is None else json.dumps({"transaction": "x", **body}).encode()
        request = urllib.request.Request(HTTP + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def prepare(self, _room, _bearer, sdp, _state):
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
                return "", event["jsep"]["sdp"]
        raise AssertionError("no answer came")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


async def attack():
    import flood
    import stun
    import vectors
    import wire
    from peer import credentials, payload_types
    from wrtc_client import WrtcClient
    janus = Janus()
    try:
        client = WrtcClient(janus, "", "alice", "")
        await client.prepare()
        await client.until(lambda totals: totals["framesDecoded"] > 0, 10, "echo")
        answer = client.pc.remote_description.sdp
        port = int(re.search(rf"{ADDRESS} (\d+) typ host", answer)[1])
        wire.VICTIM = ADDRESS
        seen = wire.Wire(port, payload_types(answer)["audio"])
        theirs, own = credentials(answer)[0], credentials(client.pc.local_description.sdp)[0]
        classes = {
            "T01 first bytes": [bytes([first]) + bytes(30) for first in range(256)],
            "T02 malformed STUN": vectors.datagrams("stun", wanted=lambda row: row["expect"] == "drop"),
            "T10 requests without credentials": vectors.datagrams("stun", wanted=lambda row: row["name"].startswith(
                ("browser-", "no-mi", "no-username", "unknown-ufrag"))),
            "T12 right user name, wrong key": [stun.check(f"{theirs}:{own}", os.urandom(12).hex()) for _ in range(64)],
            "T15 RTP spray": [vectors.named("srtp_packets", "rtpengine-bleed-spray")],
            "T30 hostile DTLS records": vectors.datagrams("dtls", wanted=lambda row: not row["name"].startswith("use-srtp")),
        }
        held = 0
        for name, payloads in classes.items():
            before, frames = sum(seen.to_others().values()), (await client.totals())["framesDecoded"]
            draw = flood.strangers()
            sent, _ = await flood.run([flood.packet(one, next(draw), (ADDRESS, port)) for one in payloads], 2_000, 2_000)
            await asyncio.sleep(1)
            answered, frames = sum(seen.to_others().values()) - before, (await client.totals())["framesDecoded"] - frames
            good = answered == 0 and frames > 5 and janus.process.poll() is None
            held += good
            print(f"{'held' if good else 'FAIL'} {name:34} {sent:>6} sent, {answered:>8} bytes to strangers, {frames} frames seen meanwhile",
                  flush=True)
        await client.close()
        seen.stop()
    finally:
        janus.stop()
    print(f"foreign: {held} of {len(classes)} classes held")


def main():
    from run import isolation, set_up_network
    if "--inside" in sys.argv:
        set_up_network("veth")
        try:
            asyncio.run(attack())
        except Exception:  # noqa: BLE001 — the client's threads would keep the process
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(0)
    if not shutil.which("janus"):
        sys.exit("foreign.py: janus is not installed (apt install janus)")
    return subprocess.run([*isolation(), sys.executable, str(HERE / "foreign.py"), "--inside"],
                          env={**os.environ, "PYTHONUNBUFFERED": "1"}).returncode


if __name__ == "__main__":
    sys.exit(main())
