"""One program takes over from another in the process of a node: what goes on, and what happens when the next one is no good.

Standard library only. That no packet and no request is lost under load shows the scenario `upgrade` of bench/RelayLoad.
"""
import http.client
import json
import os
import pathlib
import shutil
import signal
import threading
import time

import relay as relay_module
from relay import ADMIN, BINARY, Relay, check, token


class Replaceable(Relay):
    """A node whose program can be replaced as a package does it: a new file under the old name."""

    def __init__(self, **options):
        super().__init__(**options)
        self.program = pathlib.Path(self.folder, "bin", "media-relay")
        self.program.parent.mkdir()
        shutil.copy(BINARY, self.program)

    def start(self, ready=200):
        original, relay_module.BINARY = relay_module.BINARY, self.program
        try:
            super().start(ready)
        finally:
            relay_module.BINARY = original

    def replace(self, script=None):
        """With the same program, or with a shell script."""
        new = self.program.with_name("new")
        if script is None:
            shutil.copy(BINARY, new)
        else:
            new.write_text("#!/bin/sh\n" + script)
            new.chmod(0o755)
        os.rename(new, self.program)

    def signal(self, number, words, seconds=20):
        """Sends it to control and waits for the line of the log that has these words."""
        before = len(self.log())
        self.process.send_signal(number)
        deadline = time.monotonic() + seconds
        while words not in (text := self.log()[before:]):
            check(self.process.poll() is None, f"control ended with {self.process.returncode}: {text[-2000:]}")
            check(time.monotonic() < deadline, f"the log does not say {words}: {text[-2000:]}")
            time.sleep(0.02)
        return text

    def log(self):
        return pathlib.Path(self.log_path).read_text(errors="replace")


def check_takeover(relay):
    """A new file and SIGHUP: the process stays, a kept connection goes on, whoever waits for events is answered."""
    pid, (worker,) = relay.process.pid, relay.worker_pids()
    host, port = relay.http.rsplit(":", 1)
    kept = http.client.HTTPConnection(host, int(port), timeout=30)
    headers = {"Authorization": f"Bearer {token(ADMIN)}"}
    kept.request("GET", "/v1/rooms", headers=headers)
    check(kept.getresponse().read(), "no rooms")
    socket = kept.sock
    cursor = relay.events()[-1]["seq"]
    waited = []

    def wait():
        path = f"/v1/events?after={cursor}&wait=30"
        waited.append(relay.admin("GET", path, headers={"Accept": "application/json"}).expect(200).json)

    waiting = threading.Thread(target=wait)
    waiting.start()
    relay.create_room(id="before", kind="peer", media="audio", timeouts={"emptyMs": 600000})
    relay.replace()
    relay.signal(signal.SIGHUP, "has taken over")
    waiting.join(10)
    check(not waiting.is_alive(), "whoever waits for events is not answered")
    kept.request("GET", "/v1/rooms/before", headers=headers)
    check(json.loads(kept.getresponse().read())["id"] == "before", "the room is gone")
    check(kept.sock is socket, "the kept connection was cut")
    kept.close()
    check(relay.process.poll() is None and relay.process.pid == pid, "control is another process")
    deadline = time.monotonic() + 20
    while worker in relay.worker_pids() or len(relay.worker_pids()) != 1:
        check(time.monotonic() < deadline, f"the workers are {relay.worker_pids()}, the earlier one was {worker}")
        time.sleep(0.05)
    types = [event["type"] for event in relay.events(after=cursor)]
    check(types == ["room.created", "node.started"], f"told was {types}")
    relay.ask("GET", "/readyz").expect(200)


def check_refusals(relay):
    """A program that would not start is not started: the one that runs goes on, and says why."""
    pid = relay.process.pid
    workers = relay.worker_pids()
    for script, words in [
        ("echo the database is of another world; exit 3", "exited with status 3: the database is of another world"),
        ("kill -SEGV $$", "killed by signal 11"),
    ]:
        relay.replace(script)
        text = relay.signal(signal.SIGHUP, "nothing was upgraded, this program goes on")
        check(words in text, f"the log does not say {words}: {text}")
        relay.ask("GET", "/readyz").expect(200)
    # What a start would refuse is found before anything is stopped.
    relay.replace('if [ "$1" = trial ]; then exec ' + str(BINARY) + ' "$@" --bogus; fi')
    text = relay.signal(signal.SIGUSR2, "nothing was upgraded, this program goes on")
    check("unknown option" in text, f"the log does not say why: {text}")
    # One that fails at its start nevertheless goes back to the one before it, in the same process.
    relay.replace('if [ "$1" = trial ]; then exit 0; fi; exec ' + str(BINARY) + ' "$@" --bogus')
    text = relay.signal(signal.SIGHUP, "goes on: --bogus: unknown option")
    check("does not start, the program from before goes on" in text, f"the log does not tell it: {text}")
    relay.ask("GET", "/v1/rooms/before", bearer=token(ADMIN)).expect(200)
    check(relay.process.poll() is None and relay.process.pid == pid, "control is another process")
    check(relay.worker_pids() == workers, f"the workers {workers} were replaced by {relay.worker_pids()}")


def program_upgrade():
    with Replaceable() as relay:
        # The same file again is no upgrade.
        relay.signal(signal.SIGHUP, "nothing has changed")
        check_takeover(relay)
        check_refusals(relay)
        # SIGUSR2 lets the program take over from itself; a drain goes on.
        relay.replace()
        relay.admin("POST", "/v1/node/drain", {"deadlineSeconds": 600}).expect(200)
        relay.signal(signal.SIGUSR2, "has taken over")
        deadline = time.monotonic() + 10
        while (ready := relay.ask("GET", "/readyz")).body != b"draining\n":
            check(time.monotonic() < deadline, f"/readyz says {ready.status} {ready.body}")
            time.sleep(0.02)
        return "a takeover, four refusals, a way back"
