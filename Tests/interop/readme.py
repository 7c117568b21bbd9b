"""Runs the commands that the README prints, as they stand there, and looks at what they print."""
import os
import re
import subprocess
import tempfile

from relay import BINARY, ROOT, check


def readme():
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r'<!-- These commands are run by the test "readme"\. -->\n```sh\n(.*?)```', text, re.DOTALL)
    check(len(blocks) == 2, f"the README has {len(blocks)} blocks of commands for this test")
    # The build has been made, and the binary may be another one.
    commands = "".join(blocks).replace("make build\n", "", 1).replace(".build/release/media-relay", str(BINARY))
    check(commands.count(str(BINARY)) == 5, "the README starts the relay and mints four tokens")
    with tempfile.TemporaryDirectory(prefix="media-relay-readme-") as home:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MEDIA_RELAY", "XDG"))}
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-m", "-c", commands + "\nwait %1 || true\n"], cwd=ROOT, timeout=50,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**environment, "HOME": home})
    print(done.stdout)
    check(done.returncode == 0, f"the README's commands ended with code {done.returncode}: {done.stdout[-600:]}")
    for part in (
        '"id":"room-1"', '"rooms":[{"id":"room-1"', '"participants":[]', '"type":"node.started"', '"type":"room.created"',
        '"next":', "event: call.initiated", "event: call.ringing", "event: call.ended", '"outcome":"rejected"',
    ):
        check(part in done.stdout, f"{part} is not among what the README's commands print")
    for word in ("not-authenticated", "malformed", "problem"):
        check(word not in done.stdout, f"one of the README's commands was refused ({word})")
    return f"{len(re.findall('^curl', commands, re.MULTILINE))} requests"
