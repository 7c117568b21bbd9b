"""`media-relay load`: against a node, and against a WHIP endpoint that is none of ours (aiortc behind a few lines of HTTP)."""
import asyncio
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import aiortc

from command_line import DONE, FAILED, Shell
from relay import BINARY, KEY_ID, SECRET, Relay, check

ADDRESS = "10.99.0.1"


def load(shell, *words, code=DONE):
    """The summary."""
    return json.loads(shell.run("load", *words, "--json", code=code))


def check_media(summary, packets_of_each):
    people = summary["joined"]
    check(summary["failed"] == 0 and not summary["failures"], f"somebody did not get in: {summary}")
    check(summary["packetsSent"] >= people * packets_of_each, f"little was sent: {summary}")
    check(summary["packetsReceived"] > 0.9 * summary["packetsSent"], f"little came: {summary}")
    check(summary["unopened"] == 0 and summary["lostShare"] < 0.01, f"what came is not what was sent: {summary}")
    check(0 < summary["latency"]["p50"] < 1_000 and summary["setUp"]["count"] == people, f"no times: {summary}")


def load_node():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="media-relay-load-"))
    try:
        (folder / "key").write_text(SECRET)
        with Relay() as relay:
            shell = Shell(MEDIA_RELAY_URL=f"http://{relay.http}", MEDIA_RELAY_KEY=f"{KEY_ID}:@{folder}/key")
            talk = load(shell, "audio", "--rooms", "10", "--seconds", "3")
            check(talk["joined"] == 20, f"{talk['joined']} of 20 people")
            check_media(talk, 100)
            check(talk["roundTrip"]["count"] == 20 and talk["lostOnTheWayThere"] == 0, f"the node's reports: {talk}")
            video = load(shell, "video", "--rooms", "3", "--seconds", "3")
            check_media(video, 400)
            check(video["megabitsReceived"] > 5, f"video is small: {video}")
            group = load(shell, "group", "--rooms", "1", "--size", "3", "--seconds", "4")
            check(group["joined"] == 3 and group["packetsReceived"] > 1.5 * group["packetsSent"], f"a group of three: {group}")
            check(group["unopened"] == 0, f"a group of three: {group}")
            churn = load(shell, "churn", "--rooms", "4", "--call-seconds", "1", "--seconds", "4")
            check(churn["joined"] >= 16 and churn["failed"] == 0 and churn["unopened"] == 0, f"calls that come and go: {churn}")
            storm = load(shell, "storm", "--rate", "40", "--seconds", "2")
            check(storm["joined"] == 80 and storm["failed"] == 0 and storm["firstPacket"]["count"] > 0, f"a storm: {storm}")
            check(shell.json("rooms", "list") == [], "rooms are left behind")
            interrupted(shell)
            check("from client to client" in shell.run("load", "audio", "--rooms", "1", "--seconds", "1"), "no text")
            wrong = ("--key", f"{KEY_ID}:another secret of 32 bytes or more")
            check(shell.run("load", "audio", *wrong, code=FAILED) == "", "a load with a wrong key")
        return f"{talk['joined']} people in calls, p99 {talk['latency']['p99']:.2f} ms; {storm['joined']} in a storm"
    finally:
        shutil.rmtree(folder)


def interrupted(shell):
    process = subprocess.Popen(
        [str(BINARY), "load", "audio", "--rooms", "5", "--seconds", "600", "--json"], env=shell.environment, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    # It says when people talk.
    for line in process.stderr:
        if "talk" in line:
            break
    process.send_signal(signal.SIGINT)
    summary = json.loads(process.communicate(timeout=20)[0])
    check(process.returncode == DONE and summary["wasInterrupted"] and summary["joined"] == 10, f"interrupted: {summary}")
    check(shell.json("rooms", "list") == [], "an interrupted load leaves rooms behind")


class Endpoint:
    """A WHIP endpoint (RFC 9725): takes what is published, and counts."""

    def __init__(self, bearer):
        self.bearer, self.sessions, self.ended = bearer, {}, 0

    async def serve(self, reader, writer):
        try:
            while await self.answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def answer(self, reader, writer):
        method, path, _ = (await reader.readline() or b"- - -").decode().split(" ", 2)
        if method == "-":
            return False
        headers = {}
        while line := (await reader.readline()).decode().strip():
            name, value = line.split(":", 1)
            headers[name.lower()] = value.strip()
        body = (await reader.readexactly(int(headers.get("content-length", 0)))).decode()
        status, more, answer = 200, "", ""
        if headers.get("authorization") != f"Bearer {self.bearer}":
            status = 401
        elif method == "POST":
            peer = aiortc.RTCPeerConnection(aiortc.RTCConfiguration(iceServers=[]))
            await peer.setRemoteDescription(aiortc.RTCSessionDescription(body, "offer"))
            await peer.setLocalDescription(await peer.createAnswer())
            name = f"/whip/{len(self.sessions)}"
            self.sessions[name] = peer
            status, more, answer = 201, f"Content-Type: application/sdp\r\nLocation: {name}\r\n", peer.localDescription.sdp
        elif method == "DELETE":
            await self.sessions[path].close()
            self.ended += 1
        writer.write(f"HTTP/1.1 {status} X\r\n{more}Content-Length: {len(answer)}\r\n\r\n{answer}".encode())
        await writer.drain()
        return True


async def publish():
    endpoint = Endpoint("secret-of-the-endpoint")
    server = await asyncio.start_server(endpoint.serve, ADDRESS, 8889)
    url = f"http://{ADDRESS}:8889/whip"

    async def run(*words):
        process = await asyncio.create_subprocess_exec(
            str(BINARY), "load", *words, "--json", "--seconds", "4", env={"PATH": os.environ["PATH"]},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        output, errors = await asyncio.wait_for(process.communicate(), 40)
        return process.returncode, output.decode(), errors.decode()

    code, output, errors = await run("audio", "--rooms", "4", "--whip", url, "--token", endpoint.bearer)
    check(code == 2 and not output and "--yes-remote" in errors and not endpoint.sessions, f"another machine was asked: {errors}")
    code, output, errors = await run("audio", "--rooms", "4", "--whip", url, "--token", endpoint.bearer, "--yes-remote")
    check(code == DONE, f"ended with {code}: {output}{errors}")
    summary = json.loads(output)
    check(summary["joined"] == 4 and summary["failed"] == 0, f"{summary}")
    check(summary["packetsSent"] >= 4 * 150 and summary["packetsReceived"] == 0, f"{summary}")
    check(summary["roundTrip"]["count"] == 4, f"no reports of the endpoint: {summary}")
    check(endpoint.ended == 4 and len(endpoint.sessions) == 4, f"{endpoint.ended} sessions were ended")
    code, output, errors = await run("audio", "--rooms", "2", "--whip", url, "--token", "another", "--yes-remote")
    check(code == FAILED and json.loads(output)["failures"] == {"offer: refused with status 401": 2}, f"a wrong token: {output}{errors}")
    server.close()
    return f"4 publishers at aiortc, round trip p50 {summary['roundTrip']['p50']:.2f} ms"


def load_whip():
    return asyncio.run(publish())
