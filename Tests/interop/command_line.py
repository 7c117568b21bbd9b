"""The program's commands against a live relay, with good and bad arguments.

Standard library only, and `groff` for the manual page where it is installed.
"""
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile

from relay import BINARY, KEY_ID, ROOT, SECRET, Relay, check, participant

# Without a scenario, with one that is none, with options that do not go together, and to other machines without leave.
_NODE = ("--url", "http://127.0.0.1:9", "--key", "k:a secret of thirty-two bytes or more")
BAD_LOADS = [("load", *words) for words in [
    (), ("bogus", *_NODE), ("audio",), ("audio", "--size", "3", *_NODE), ("storm", "--rooms", "3", *_NODE), ("audio", "--rooms", "0", *_NODE),
    ("video", "--call-seconds", "3", *_NODE), ("audio", "--token", "t", *_NODE), ("group", "--whip", "http://127.0.0.1:9/whip"),
    ("audio", "--whip", "ftp://127.0.0.1/whip"), ("audio", "--whip", "http://127.0.0.1:9/whip", "--key", "k:x"),
    ("audio", "--whip", "http://192.0.2.1/whip"), ("audio", "--whip", "http://relay.example.org/whip"),
    ("audio", "--url", "http://192.0.2.1:8080", *_NODE[2:])]]

DONE, FAILED, USAGE, UNREACHABLE, NOT_FOUND = range(5)


class Shell:
    """Runs `media-relay` with a clean environment of its own."""

    def __init__(self, **environment):
        self.environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LANG": "C.UTF-8", **environment}

    def run(self, *words, code=DONE):
        """Standard output. Whatever fails says why on standard error, and nothing else."""
        done = subprocess.run(
            [str(BINARY), *words], env=self.environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30)
        check(done.returncode == code, f"{words} ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")
        check("\x1b" not in done.stdout, f"{words} colours what is not read at a terminal")
        if code in (USAGE, UNREACHABLE, NOT_FOUND):
            check(not done.stdout and done.stderr.startswith("media-relay"), f"{words} said {done.stdout}{done.stderr}")
        return done.stdout

    def json(self, *words):
        return [json.loads(line) for line in self.run(*words, "--json").splitlines()]


def at_terminal(environment, *words):
    """Output of a command whose standard output is a terminal."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [str(BINARY), *words], env=environment, stdout=follower, stderr=follower, stdin=subprocess.DEVNULL)
    os.close(follower)
    output = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        output += part
    os.close(leader)
    check(process.wait(30) == 0, f"{words} failed at a terminal")
    return output.decode()


def check_alone(shell):
    """What needs no node."""
    commands = set(re.findall(r"^  ([a-z]+(?: [a-z]+)?)(?: {2,}|$)", shell.run("--help"), re.MULTILINE))
    expected = {
        "serve", "config print", "config check", "config default", "rooms list", "rooms show", "calls list", "calls show", "events", "kick",
        "end", "capture", "record start", "record stop", "drain", "undrain", "load", "token", "doctor", "completion", "man", "version",
    }
    check(commands >= expected, f"help lists {commands}")
    for command in sorted(commands):
        help_text = shell.run(*command.split(), "--help")
        check(help_text.startswith(f"usage: media-relay {command}"), f"{command} --help says {help_text[:100]}")
    check(re.fullmatch(r"media-relay \d+\.\d+\.\d+\S*\n", shell.run("version")), "the version has another form")
    for words in [(), ("bogus",), ("kick", "r"), ("rooms", "--bogus"), ("end", "r", "s"), ("serve", "--bogus"),
                  ("config", "check", "--workers", "0"), ("completion", "csh"), ("calls", "list", "--outcome", "odd"),
                  ("serve", "--workers", "0"), ("token", "--server"), *BAD_LOADS]:
        bare = Shell()
        done = subprocess.run([str(BINARY), *words], env=bare.environment, capture_output=True, text=True, timeout=30)
        check(done.returncode == USAGE and not done.stdout and done.stderr, f"{words}: {done.returncode} {done.stdout}")
    check_completion(shell)
    page = shell.run("man")
    if shutil.which("groff"):
        made = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", "-Kutf8"], input=page, capture_output=True, text=True, timeout=30)
        check(made.returncode == 0 and not made.stderr, f"groff says {made.stderr[:500]}")
        check("--max-token-lifetime" in re.sub("\x1b\\[[0-9;]*m|.\b", "", made.stdout), "the manual lacks an option")


def check_completion(shell):
    script = shell.run("completion", "bash")

    def complete(*words):
        text = script + "COMP_WORDS=(" + " ".join(f"'{word}'" for word in words) + ")\n"
        text += f"COMP_CWORD={len(words) - 1}\n_media_relay\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
        done = subprocess.run(["bash", "-eu"], input=text, capture_output=True, text=True, timeout=30)
        check(done.returncode == 0, f"bash says {done.stderr}")
        return done.stdout.split()

    check(complete("media-relay", "cal") == ["calls"], "commands are not completed")
    check(complete("media-relay", "rooms", "") == ["list", "show"], "verbs are not completed")
    check(complete("media-relay", "rooms", "list", "--st") == ["--status"], "options are not completed")
    check(complete("media-relay", "rooms", "list", "--status", "on") == ["ongoing"], "values are not completed")
    check(complete("media-relay", "serve", "--retain-e") == ["--retain-events"], "a node's options are not completed")
    check("zsh" in complete("media-relay", "completion", ""), "shells are not completed")
    for other in filter(shutil.which, ("zsh", "fish")):
        made = shell.run("completion", other)
        done = subprocess.run([other, "-n"], input=made, capture_output=True, text=True, timeout=30)
        check(done.returncode == 0 and not done.stderr, f"{other} says {done.stderr}")


def check_rooms(relay, shell):
    check(shell.run("rooms") == "no rooms\n" and shell.json("rooms") == [], "there are rooms before the first")
    relay.create_room(id="c-1", kind="peer", media="audio", ring={"caller": "alice", "callees": ["bob"], "windowMs": 3600000})
    relay.create_room(id="plain", kind="peer", media="video", timeouts={"connectingMs": 600000})
    check("c-1    peer  audio  initiated" in shell.run("rooms", "list", "--status", "initiated"), "c-1 is not listed")
    check("alice → bob" in shell.run("rooms", "show", "c-1"), "the call is not shown")
    check({room["id"] for room in shell.json("rooms", "list")} == {"c-1", "plain"}, "the JSON lists other rooms")
    check([room["id"] for room in shell.json("rooms", "--uid", "bob")] == ["c-1"], "a user's rooms are others")
    check(len(shell.json("rooms", "--limit", "1")) == 1, "--limit is not kept")
    offer = (ROOT / "Tests/Fixtures/sdp/chromium-plain.sdp").read_text()
    relay.prepare("plain", participant("plain", "alice"), offer)
    check("alice  test    connecting" in shell.run("rooms", "show", "plain"), "the participant is not shown")
    check_record(relay, shell)
    shell.run("kick", "plain", "bob", code=NOT_FOUND)
    shell.run("kick", "plain", "alice", "--device", "other", code=NOT_FOUND)
    check(shell.run("kick", "plain", "alice") == "alice (test) is out\n", "the kick is not told")
    relay.await_event("participant.left", "plain", 5, reason="kicked")
    shell.run("rooms", "show", "none", code=NOT_FOUND)
    shell.run("kick", "none", "alice", code=NOT_FOUND)


def check_record(relay, shell):
    """Of a room with somebody in it."""
    shell.run("record", "stop", "plain", code=NOT_FOUND)
    shell.run("record", "start", "none", code=NOT_FOUND)
    shell.run("record", "start", "plain", "--minutes", "0", code=USAGE)
    shell.run("record", "start", "plain", "--minutes", "100000", code=FAILED)
    (made,) = shell.json("record", "start", "plain", "--audio-only", "--minutes", "5")
    check(made["folder"].startswith("plain_rec_") and not made["video"], f"it is recorded as {made}")
    shell.run("record", "start", "plain", code=FAILED)
    check("ends; recording.ended tells" in shell.run("record", "stop", "plain"), "the stop is not told")
    relay.await_event("recording.ended", "plain", 10, reason="stopped")
    shell.run("record", "stop", "plain", code=NOT_FOUND)


def check_calls(relay, shell):
    check("plain has ended" in shell.run("end", "plain", "--reason", "maintenance"), "the end is not told")
    shell.run("end", "none", code=NOT_FOUND)
    relay.admin("POST", "/v1/rooms/c-1/pushed", {"uid": "bob", "device": "phone"}).expect(200)
    relay.admin("POST", "/v1/rooms/c-1/end", {"status": "cancelled", "uid": "alice"}).expect(200)
    relay.await_event("room.closed", "c-1", 5)
    listed = shell.run("calls")
    check("alice → bob" in listed and "maintenance" in listed, f"the calls are {listed}")
    check([call["roomId"] for call in shell.json("calls")] == ["c-1", "plain"], "the JSON lists other calls")
    missed = shell.run("calls", "list", "--uid", "bob", "--outcome", "missed")
    check("incoming missed" in missed and "plain" not in missed, f"bob missed {missed}")
    shown = shell.run("calls", "show", "c-1")
    for words in ["alice calls", "push for bob (phone)", "the end: cancelled", "Nobody was in."]:
        check(words in shown, f"{words} is not in {shown}")
    shown = shell.run("calls", "show", "plain")
    for words in ["alice (test) prepares", "alice (test) is out: kicked", "to the relay: packets", "connecting"]:
        check(words in shown, f"{words} is not in {shown}")
    check(shell.json("calls", "show", "c-1")[0]["outcome"] == "cancelled", "the JSON shows another outcome")
    shell.run("calls", "show", "none", code=NOT_FOUND)
    shell.run("calls", "list", "--outcome", "missed", code=FAILED)
    shell.run("calls", "list", "--limit", "0", code=USAGE)


def check_events(relay, shell):
    told = relay.events()
    check(shell.json("events") == told, "events --json is not the log")
    check(len(shell.run("events").splitlines()) == len(told), "an event is not one line")
    after = told[2]["seq"]
    check(shell.json("events", "--after", str(after)) == told[3:], "--after is not kept")
    check(shell.json("events", "--room", "c-1") == relay.events(room="c-1"), "--room is not kept")
    shell.run("events", "--after", "soon", code=USAGE)
    follower = subprocess.Popen(
        [str(BINARY), "events", "--follow", "--json"], env=shell.environment, stdout=subprocess.PIPE, text=True)
    try:
        # It begins with what happens after its start, which cannot be seen from here: rooms are made until one shows.
        for number in range(200):
            relay.create_room(id=f"seen-{number}", kind="peer", media="audio")
            if select.select([follower.stdout], [], [], 0.05)[0]:
                break
        seen = follower.stdout.readline()
        check(seen and json.loads(seen)["type"] == "room.created", f"what is followed is {seen}")
    finally:
        follower.send_signal(signal.SIGTERM)
        follower.wait()


def check_connection(relay, shell, folder):
    Shell(**{**shell.environment, "MEDIA_RELAY_URL": "http://127.0.0.1:9"}).run("rooms", code=UNREACHABLE)
    Shell(**{**shell.environment, "MEDIA_RELAY_URL": "http://127.0.0.1:9"}).run("events", "--follow", code=UNREACHABLE)
    shell.run("rooms", "--key", "interop:another secret of 32 bytes or more", code=FAILED)
    bare = Shell()
    bare.run("rooms", code=USAGE)
    config = folder / "node.json5"
    config.write_text(f"// reached by its own configuration\n{{http: '{relay.http}', key: '{KEY_ID}:@{folder}/key'}}\n")
    check(bare.run("rooms", "--config", str(config)), "the configuration leads to no node")
    server = bare.run("token", "--server", "--config", str(config)).strip()
    relay.ask("GET", "/v1/rooms", bearer=server).expect(200)
    alice = shell.run("token", "--room", "c-1", "--uid", "alice").strip()
    relay.ask("GET", "/v1/rooms/c-1", bearer=alice).expect(200)
    check("\x1b[" in at_terminal({**shell.environment, "TERM": "xterm"}, "rooms"), "no colour at a terminal")
    for other in ({"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "dumb"}):
        check("\x1b" not in at_terminal({**shell.environment, **other}, "rooms"), f"colour in spite of {other}")


def check_drain(relay, shell):
    relay.create_room(id="left", kind="peer", media="audio")
    check("draining: " in shell.run("drain", "--deadline", "1h"), "the drain is not told")
    ready = relay.ask("GET", "/readyz")
    check((ready.status, ready.body) == (503, b"draining\n"), f"/readyz says {ready.status} {ready.body}")
    relay.ask("GET", "/healthz").expect(200)
    refused = relay.admin("POST", "/v1/rooms", {"id": "late", "kind": "peer", "media": "audio"}).expect(503)
    check(refused.json["code"] == "draining" and refused.headers["Retry-After"], f"refused with {refused.json}")
    # It outlives a crash of control.
    relay.kill_control()
    relay.start(ready=503)
    check(relay.ask("GET", "/readyz").body == b"draining\n", "the drain did not outlive control")
    # Another deadline, and what is left ends at it.
    (told,) = shell.json("drain", "--deadline", "1", "--wait")
    check(told["draining"] and told["rooms"] == 0 and told["drainedAt"], f"waited for {told}")
    check(relay.admin("GET", "/v1/rooms/left").json["outcome"] == "drained", "what was left is not drained")
    check("takes new rooms" in shell.run("undrain"), "the end of the drain is not told")
    relay.ask("GET", "/readyz").expect(200)
    relay.create_room(id="next", kind="peer", media="audio")
    for wrong in ("soon", "8d", "-1", "10x"):
        shell.run("drain", "--deadline", wrong, code=USAGE)
    types = [event["type"] for event in relay.events() if event["type"].startswith("node.")]
    check(types == ["node.started", "node.draining", "node.started", "node.draining", "node.drained", "node.undrained"], f"told was {types}")


def check_config(shell, folder):
    (folder / "default.json5").write_text(shell.run("config", "default"))
    check("is good" in shell.run("config", "check", "--config", str(folder / "default.json5")), "the default is not good")
    config = folder / "other.json5"
    config.write_text("{\n  workers: 2, announce: ['203.0.113.7'], // known\n  'retain-hours': 24,\n}\n")
    check("is good" in shell.run("config", "check", "--config", str(config)), "the configuration is not good")
    printed = shell.run("config", "print", "--config", str(config), "--log", "json")
    for words in [f"From: {config} line 2", "From: --log", "workers: 2,", '"retain-hours": 24,', "From: MEDIA_RELAY_KEY"]:
        check(words in printed, f"{words} is not in {printed}")
    again = folder / "again.json5"
    again.write_text(printed)
    second = Shell().run("config", "print", "--config", str(again))
    values = [[line for line in text.splitlines() if not line.lstrip().startswith("//")] for text in (printed, second)]
    check(values[0] == values[1], "what is printed gives another configuration")
    check(SECRET not in printed, "a secret is printed")
    for text, words in [("{workers: 99}", "workers 99: not a number in 1…64"), ("{worker: 1}", "line 1: worker: unknown"),
                        ("{workers: 1", "not one JSON5 object")]:
        config.write_text(text)
        done = subprocess.run(
            [str(BINARY), "config", "check", "--config", str(config)], env=shell.environment, capture_output=True, text=True)
        check(done.returncode == USAGE and words in done.stderr, f"{text} gives {done.returncode}, {done.stderr}")


def check_doctor(relay, shell):
    words = ["doctor", "--http", relay.http, "--media", relay.media, "--data", relay.data, "--admin", "off"]
    done = subprocess.run([str(BINARY), *words, "--json"], env=shell.environment, capture_output=True, text=True, timeout=60)
    report = json.loads(done.stdout)
    found = {finding["check"]: finding for finding in report["findings"]}
    check(set(found) >= {"configuration", "http", "media-udp", "media-tcp", "announce", "socket-buffers", "open-files", "clock",
                         "cipher", "kernel", "data", "keys"}, f"the doctor looked at {set(found)}")
    check(f"pid {relay.process.pid}" in found["http"]["detail"], f"the running node is not known: {found['http']}")
    check(found["cipher"]["status"] != "fail" and found["keys"]["status"] == "ok", f"found {found}")
    failed = [finding for finding in report["findings"] if finding["status"] == "fail"]
    check(done.returncode == (FAILED if failed else DONE), f"the doctor ended with {done.returncode}: {report}")
    check((report["status"] == "fail") == bool(failed), f"the worst is {report['status']}")
    check(all("advice" in finding for finding in report["findings"] if finding["status"] != "ok"), "advice is missing")
    taken = shell.run("doctor", "--http", relay.http, "--data", relay.data + "-other", code=FAILED)
    check("taken by another program" in taken and "→" in taken, f"the taken port is not told: {taken}")
    broken = shell.run("doctor", "--workers", "0", code=FAILED)
    check("FAIL  configuration" in broken, f"the configuration is not told: {broken}")


def command_line():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="media-relay-commands-"))
    try:
        (folder / "key").write_text(SECRET)
        (folder / "key").chmod(0o600)
        with Relay(options=["--recordings", str(folder / "recordings")]) as relay:
            shell = Shell(MEDIA_RELAY_URL=f"http://{relay.http}", MEDIA_RELAY_KEY=f"{KEY_ID}:@{folder}/key")
            check_alone(shell)
            check_rooms(relay, shell)
            check_calls(relay, shell)
            check_events(relay, shell)
            check_drain(relay, shell)
            check_connection(relay, shell, folder)
            check_config(shell, folder)
            check_doctor(relay, shell)
        shell.run("rooms", code=UNREACHABLE)
        return "every command, good and bad arguments"
    finally:
        shutil.rmtree(folder)
