#!/usr/bin/env python3
"""Runs the interop tests: real clients, the built relay, each test in network and process namespaces of its own.

Usage: run.py [--only NAME]… [--list]      prints one line for each test, last "interop: N passed, 0 failed".
Needs root (unshare), and the clients of requirements.txt in the Python that runs it. MEDIA_RELAY names another binary.
"""
import argparse
import importlib
import os
import pathlib
import shutil
import subprocess
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LIBDATACHANNEL = "libdatachannel-py==2026.1.0"


class Test:
    """`network`: lo, or veth (an own address and a default route as well, for clients that refuse loopback). `tries`: 2 where
    what is measured is how smooth a picture or how short a pause is, which another program on the machine may spoil: once more
    then, and it is said.
    """

    def __init__(self, module, function, network="lo", seconds=60, environment=None, tries=1):
        self.module, self.function, self.network, self.tries = module, function, network, tries
        self.seconds, self.environment = seconds, environment or {}
        self.name = function.replace("_", "-")


TESTS = [
    Test("contract", "api_contract"),
    Test("readme", "readme"),
    Test("command_line", "command_line"),
    Test("config_reload", "config_reload"),
    Test("binary", "hardened_binary"),
    Test("binary", "bill_of_materials"),
    Test("watching", "watching", seconds=90, tries=2),
    Test("capture_call", "capture_call", seconds=90, tries=2),
    Test("status_page", "status_page", seconds=120, tries=2),
    Test("load", "load_node", seconds=90),
    Test("load", "load_whip", network="veth"),
    Test("upgrade", "program_upgrade"),
    Test("python_client", "python_client"),
    Test("wrtc_call", "wrtc_call"),
    Test("wrtc_call", "wrtc_call_null_tracks"),
    Test("wrtc_call", "wrtc_call_postquantum", environment={"WRTC_FIELD_TRIALS": "WebRTC-EnableDtlsPqc/Enabled/"}),
    Test("wrtc_call", "wrtc_call_loss", seconds=90, tries=2),
    Test("wrtc_call", "wrtc_call_record"),
    Test("ring_call", "ring_answered"),
    Test("ring_call", "ring_outcomes"),
    Test("signaling_server", "signaling_server"),
    Test("signaling_server", "signaling_webhooks"),
    Test("webhooks", "webhooks"),
    Test("ring_page", "ring_page_outcomes", seconds=120),
    Test("ring_page", "ring_page_calls", seconds=120),
    Test("ring_page", "ring_page_media", seconds=90),
    Test("media_call", "media_within_a_call", tries=2),
    Test("media_call", "early_key_frame", tries=2),
    Test("prompt_call", "prompts_by_ear", seconds=90, tries=2),
    Test("recording_call", "recorded", seconds=90, tries=2),
    Test("recording_call", "recording_disk_full", seconds=120, tries=2),
    Test("recording_call", "recording_worker_killed", seconds=90, tries=2),
    Test("aiortc_call", "aiortc_call", network="veth"),
    Test("aiortc_call", "aiortc_wrtc", network="veth"),
    Test("aiortc_call", "ipv6_call", network="veth"),
    Test("libdatachannel_call", "libdatachannel_call"),
    Test("libdatachannel_call", "rebinding_libdatachannel", tries=2),
    Test("network_change", "tcp_wrtc", tries=2),
    Test("network_change", "wrtc_ways", seconds=90, tries=2),
    Test("network_change", "rebinding_wrtc", seconds=90, tries=2),
    Test("network_change", "rebinding_aiortc", network="veth", tries=2),
    Test("wrtc_call", "hostile_datagrams"),
    Test("wrtc_call", "control_kill"),
    Test("wrtc_call", "control_away_hangup"),
    Test("wrtc_call", "worker_segv"),
    Test("group_call", "group_wrtc", seconds=120, tries=2),
    Test("group_call", "group_page", seconds=180, tries=2),
    Test("simulcast_call", "simulcast_switch", seconds=150, tries=2),
    Test("lab_short", "lab_loss", seconds=120, tries=2),
    Test("red_call", "red_both_legs", seconds=90, tries=2),
    Test("red_call", "red_added", seconds=90, tries=2),
    Test("red_call", "red_stripped", seconds=90, tries=2),
    Test("browser_call", "chromium_chromium", seconds=150, tries=2),
    Test("browser_call", "chromium_keyboard", seconds=120),
    Test("browser_call", "chromium_firefox", network="veth", seconds=200, tries=2),
    Test("browser_call", "chromium_wrtc", seconds=150, tries=2),
    Test("network_change", "tcp_chromium", seconds=120, tries=2),
    Test("network_change", "chromium_ways", seconds=120, tries=2),
    Test("network_change", "tcp_firefox", network="veth", seconds=160, tries=2),
    Test("network_change", "rebinding_browsers", network="veth", seconds=160, tries=2),
    Test("network_change", "restart_browsers", network="veth", seconds=160, tries=2),
    Test("browser_call", "chromium_chromium_loss", network="veth", seconds=150, tries=2),
    Test("browser_call", "chromium_firefox_loss", network="veth", seconds=200, tries=2),
]


def set_up_network(kind):
    """Inside the new namespace: loopback, and for `veth` 10.99.0.1 and fd00::1 with default routes.

    10.99.0.9 is for what stands between clients and the relay. It is on loopback so that clients do not take it for theirs.
    """
    def ip(*arguments):
        subprocess.run(["ip", *arguments], check=True)

    ip("link", "set", "lo", "up")
    if kind == "veth":
        ip("link", "add", "v0", "type", "veth", "peer", "name", "v1")
        ip("addr", "add", "10.99.0.1/24", "dev", "v0")
        # Without nodad an IPv6 address is not usable for its first second.
        ip("-6", "addr", "add", "fd00::1/64", "dev", "v0", "nodad")
        ip("addr", "add", "10.99.0.9/32", "dev", "lo")
        ip("link", "set", "v0", "up")
        ip("link", "set", "v1", "up")
        ip("route", "add", "default", "via", "10.99.0.2", "dev", "v0")
        ip("-6", "route", "add", "default", "via", "fd00::2", "dev", "v0")


def run_inside(name):
    """In the namespace: runs one test; the last line of the output is its note or its failure."""
    test = next(test for test in TESTS if test.name == name)
    set_up_network(test.network)
    sys.path.insert(0, str(HERE))
    try:
        note = getattr(importlib.import_module(test.module), test.function)()
        print(f"\nresult: {note or ''}", flush=True)
        code = 0
    except Exception as error:  # noqa: BLE001 — any failure is the test's result
        traceback.print_exc()
        words = f"{type(error).__name__}: {error}".replace("\n", " ")
        print(f"\nresult: {words}", flush=True)
        code = 1
    # Clients leave threads behind; they are no business of the result.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def isolation():
    """Namespaces of network and processes: what a test leaves behind ends with it. Without /proc only the network."""
    full = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*full, "true"], stderr=subprocess.DEVNULL).returncode == 0:
        return full
    return ["unshare", "--net"]


def python_of(test):
    """The Python for a test, or why there is none."""
    if test.module != "libdatachannel_call":
        return sys.executable, None
    environment = ROOT / ".venv-libdatachannel"
    python = environment / "bin/python"
    if not python.exists():
        base = newer_python()
        if base is None:
            return None, "no Python ≥ 3.12"
        try:
            subprocess.run([base, "-m", "venv", environment], check=True)
            subprocess.run(
                [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", LIBDATACHANNEL], check=True)
        except subprocess.CalledProcessError as error:
            shutil.rmtree(environment, ignore_errors=True)
            return None, f"libdatachannel-py did not install: {error}"
    return str(python), None


def newer_python():
    """A Python ≥ 3.12 on the PATH or among pyenv's."""
    names = [shutil.which(f"python3.{minor}") for minor in (13, 12, 14)] + [shutil.which("python3")]
    names += sorted(pathlib.Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python3"))
    for name in filter(None, names):
        # A shim of pyenv exists also where its version does not.
        question = "import sys, venv; sys.exit(sys.version_info < (3, 12))"
        if subprocess.run([name, "-c", question], stderr=subprocess.DEVNULL).returncode == 0:
            return str(name)
    return None


def run(test, prefix, logs):
    """Runs one test; returns whether it passed and what to say."""
    python, absent = python_of(test)
    if python is None:
        return None, absent
    log = logs / f"{test.name}.log"
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", **test.environment}
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [*prefix, python, str(HERE / "run.py"), "--inside", test.name], stdout=output, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, env=environment)
        try:
            code = process.wait(test.seconds)
        except subprocess.TimeoutExpired:
            # --kill-child takes everything in the namespace along.
            process.kill()
            process.wait()
            return False, f"not done after {test.seconds} s (log: {log})"
    text = log.read_text(errors="replace")
    results = [line[8:] for line in text.splitlines() if line.startswith("result: ")]
    note = results[-1] if results else f"ended with code {code} and no result"
    if code != 0:
        print(text[-8000:], flush=True)
        return False, f"{note} (log: {log})"
    return bool(results), note


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        run_inside(arguments.inside)
    if arguments.list:
        print("\n".join(test.name for test in TESTS))
        return 0
    unknown = set(arguments.only) - {test.name for test in TESTS}
    if unknown:
        parser.error(f"no test named {', '.join(sorted(unknown))}; --list shows them")
    if os.geteuid() != 0:
        sys.exit("run.py: network namespaces need root")
    logs = ROOT / ".build/logs/interop"
    logs.mkdir(parents=True, exist_ok=True)
    prefix = isolation()
    passed = failed = 0
    for test in TESTS:
        if arguments.only and test.name not in arguments.only:
            continue
        print(f"     {test.name} …", flush=True)
        started = time.monotonic()
        verdict, note = run(test, prefix, logs)
        for _ in range(test.tries - 1):
            if verdict is not False:
                break
            print(f"once more: {test.name}: {note}", flush=True)
            verdict, note = run(test, prefix, logs)
        seconds = time.monotonic() - started
        if verdict is None:
            print(f"absent: {test.name}: {note}", flush=True)
            continue
        passed, failed = passed + verdict, failed + (not verdict)
        print(f"{'pass' if verdict else 'FAIL'} {test.name} ({seconds:.1f} s): {note}", flush=True)
    print(f"interop: {passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
