"""What a running node takes up of its configuration file at SIGHUP. Standard library only."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time

from relay import BINARY, Relay, check


class ConfiguredRelay(Relay):
    """A node that has everything from a file."""

    def write(self, **options):
        names = {"http": self.http, "media": self.media, "data": self.data, "admin": "off", "workers": 1, **options}
        self.config = os.path.join(self.folder, "node.json5")
        with open(self.config, "w") as file:
            file.write("// of this test\n" + json.dumps({name.replace("_", "-"): value for name, value in names.items()}))

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [str(BINARY), "serve", "--config", self.config], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.wait_ready()

    def log(self):
        return pathlib.Path(self.log_path).read_text()

    def reload(self, words):
        """SIGHUP, and the line of the log that has these words."""
        before = len(self.log())
        self.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 10
        while words not in (text := self.log()[before:]):
            check(time.monotonic() < deadline, f"the log does not say {words}: {text}")
            time.sleep(0.02)
        return text


def config_reload():
    relay = ConfiguredRelay()
    keys = {}
    for name in ("a", "b"):
        path = os.path.join(relay.folder, name)
        pathlib.Path(path).write_text(f"the secret of {name}, 32 bytes or more of it\n")
        keys[name] = f"{name}:@{path}"
    relay.write(key=[keys["a"]])
    with relay:
        def token(name, *words):
            command = [str(BINARY), "token", "--key", keys[name], *(words or ("--server",))]
            return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

        def status(name):
            return relay.ask("GET", "/v1/rooms", bearer=token(name, "--server", "--ttl", "300")).status

        check((status("a"), status("b")) == (200, 401), "the file's key is not in use")
        relay.reload("nothing has changed")
        relay.write(key=[keys["a"], keys["b"]], requests_per_second=2, log_level="debug", workers=2)
        text = relay.reload("next start only")
        check(re.search(r'reloaded changed=\["key","requests-per-second","log-level"\]', text), f"the log says {text}")
        check('options=["workers"]' in text, f"the log says {text}")
        check((status("a"), status("b")) == (200, 200), "the second key is not in use")
        relay.ask("POST", "/v1/rooms", {"id": "r", "media": "audio"}, token("b")).expect(201)
        alice = token("b", "--room", "r", "--uid", "alice")
        answers = [relay.ask("GET", "/v1/rooms/r", bearer=alice).status for _ in range(20)]
        check(200 in answers and 429 in answers, f"the new limit is not in use: {answers}")
        long = token("b", "--server", "--ttl", "3600")
        relay.write(key=[keys["b"]], max_token_lifetime=600)
        relay.reload('"max-token-lifetime"')
        check(relay.ask("GET", "/v1/rooms", bearer=long).status == 401, "the shorter lifetime is not in use")
        check(status("a") == 401, "the first key is still in use")
        pathlib.Path(relay.config).write_text("{workers: 0}")
        check("workers 0: not a number in 1…64" in relay.reload("nothing was reloaded"), "the refusal says nothing")
        short = token("b", "--server", "--ttl", "300")
        relay.ask("GET", "/v1/rooms", bearer=short).expect(200)
        # A file behind the same name has another secret.
        relay.write(key=[keys["b"]], max_token_lifetime=600)
        pathlib.Path(keys["b"][3:]).write_text("another secret of b, 32 bytes or more of it\n")
        check('changed=["key"]' in relay.reload("reloaded"), "a key's new secret is not told")
        check(relay.ask("GET", "/v1/rooms", bearer=short).status == 401, "the old secret is still in use")
        check(status("b") == 200, "the new secret is not in use")
        check(len(relay.worker_pids()) == 1, "a reload started another worker")
    return "keys, limits and level taken up, workers named, a bad file changed nothing"
