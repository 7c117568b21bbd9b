#!/usr/bin/env python3
"""Faults of machine, disk, network and neighbours, each against a relay with a live call: what breaks, what goes on, what comes back.

Usage: faults.py [--only NAME]… [--list]     one line each, last "faults: N passed, N failed". Root; a namespace for each.
docs/operations.md says in one sentence each what happens; the functions of the `*_faults` modules are those sentences as tests.
"""
import argparse
import asyncio
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "Tests/interop")]
sys.dont_write_bytecode = True

import disk_faults as disk  # noqa: E402 — the path first
import outside_faults as outside  # noqa: E402
import process_faults as process  # noqa: E402
from fault_tools import Absent  # noqa: E402
from run import isolation, set_up_network  # noqa: E402

# The code of a test that lacks something on this machine.
ABSENT = 3

FAULTS = {test.__name__.replace("_", "-"): test for test in (
    disk.disk_full, disk.disk_read_only, disk.half_written_journal, disk.corrupt_journal, process.worker_stopped,
    process.handshaker_stopped, process.control_stopped, process.control_stop, process.out_of_descriptors, process.port_taken, outside.ipv6_off,
    outside.clock_steps, outside.network_away, outside.heavy_loss, outside.stalled_reader, outside.dead_webhook)}


def inside(name):
    set_up_network("lo")
    try:
        note = asyncio.run(FAULTS[name]())
        print(f"\nresult: {note or ''}", flush=True)
        code = 0
    except Absent as error:
        print(f"\nresult: {error}", flush=True)
        code = ABSENT
    except Exception as error:  # noqa: BLE001 — any failure is the test's result
        traceback.print_exc()
        print(f"\nresult: {type(error).__name__}: {error}".replace("\n", " "), flush=True)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run(name, logs):
    """Runs one in namespaces of its own, once more if it failed (a busy machine is no fault of the relay's); its code and its line."""
    for attempt in range(2):
        began, log = time.monotonic(), logs / f"{name}.log"
        with open(log, "wb") as output:
            child = subprocess.Popen(
                [*isolation(), sys.executable, str(HERE / "faults.py"), "--inside", name], stdout=output,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONUNBUFFERED": "1"})
            try:
                code = child.wait(90)
            except subprocess.TimeoutExpired:
                child.kill()
                code = child.wait()
        results = [line[8:] for line in log.read_text(errors="replace").splitlines() if line.startswith("result: ")]
        note = results[-1] if results else f"ended with {code}"
        if code == ABSENT:
            return code, f"absent: {name}: {note}"
        if code == 0:
            return code, f"pass {name} ({time.monotonic() - began:.1f} s{', second try' if attempt else ''}): {note}"
    return code, f"FAIL {name}: {note} (log: {log})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        inside(arguments.inside)
    if arguments.list:
        for name, test in FAULTS.items():
            print(f"{name}: {test.__doc__}")
        return 0
    if os.geteuid() != 0:
        sys.exit("faults.py: namespaces need root")
    unknown = set(arguments.only) - set(FAULTS)
    if unknown:
        parser.error(f"no fault named {', '.join(sorted(unknown))}; --list shows them")
    logs = ROOT / ".build/logs/faults"
    logs.mkdir(parents=True, exist_ok=True)
    names = [name for name in FAULTS if not arguments.only or name in arguments.only]
    passed = failed = 0
    # Most of a test is waiting, and each has its own namespaces.
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for code, line in pool.map(lambda name: run(name, logs), names):
            print(line, flush=True)
            passed, failed = passed + (code == 0), failed + (code not in (0, ABSENT))
    print(f"faults: {passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
