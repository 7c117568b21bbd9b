#!/usr/bin/env python3
"""Calls of real clients over emulated networks, through the relay and without it, side by side.

Usage: lab.py [--profiles NAME,…] [--clients wrtc,chromium] [--seconds N] [--out DIR] [--no-direct] [--no-red] [--apart] [--docs] [--list]
The profile `group` is a room of eight, two of them browsers, with no bad network at all (group.py).
Prints one table and which targets hold; writes the figures (JSON) and a plot for each profile (SVG); --docs: docs/quality.md with
its plots, too. Needs root (namespaces), and the clients of Tests/interop/requirements.txt in the Python that runs it.
"""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]

import group  # noqa: E402
import quality  # noqa: E402
from measure import Running, changes_address  # noqa: E402
from plots import draw  # noqa: E402
from profiles import CHROMIUM_PROFILES, PROFILES, RED_PROFILES  # noqa: E402
from targets import judge  # noqa: E402

# Long enough where the client changes its address and nothing else happens.
CHANGE_SECONDS = 30
GROUP = "group"
# Title and width of each column.
COLUMNS = (
    ("framesPerSecond", "frames/s", 9), ("freezes", "freezes", 8), ("freezeSeconds", "frozen s", 9), ("videoKbit", "kbit/s", 7),
    ("leastKbit", "least", 6), ("concealedPercent", "conceal %", 10), ("audioLossPercent", "a-loss %", 9), ("fecPerSecond", "fec/s", 6),
    ("roundTripMs", "rtt ms", 7), ("nacks", "nack", 6), ("plis", "pli", 4), ("sentKbit", "sends", 6), ("encodedKbit", "enc", 6), ("sentFramesPerSecond", "fps", 5))


def head():
    return f"{'profile':<12}{'client':<9}{'way':<7}{'':<5}" + "".join(f"{title:>{width}}" for _, title, width in COLUMNS)


def row(result, name):
    cells = "".join(f"{result[name][field]:>{width}}" for field, _, width in COLUMNS)
    return f"{result['profile']:<12}{result['client']:<9}{result['way']:<7}{'near' if name == 'first' else 'far':<5}{cells}"


def planned(options):
    """(client, profile, seconds) of every measurement."""
    for client in options.clients.split(","):
        names = options.profiles.split(",") if options.profiles else PROFILES if client == "wrtc" else CHROMIUM_PROFILES
        for name in names:
            if name == GROUP:
                continue
            is_short = changes_address(PROFILES[name]) or name == "delay-step"
            yield client, name, min(options.seconds, CHANGE_SECONDS) if is_short else options.seconds


def ways(name, options):
    yield "relay"
    if not options.no_direct:
        yield "direct"
    if name in RED_PROFILES and not options.no_red:
        yield "red"


def calls(name, client, seconds, ways=("relay", "direct"), apart=False):
    """The calls of one profile: of libwebrtc's small client side by side, a third of a core each; of Chromium one by one."""
    if apart or client == "chromium":
        return [Running(name, way, client, seconds).result() for way in ways]
    return [running.result() for running in [Running(name, way, client, seconds) for way in ways]]


def run(options, plan):
    """Results and failures."""
    results, failures, started = [], [], time.monotonic()
    print(head(), flush=True)
    for count, (client, name, seconds) in enumerate(plan, 1):
        try:
            found = calls(name, client, seconds, ways(name, options), options.apart)
        except AssertionError as error:
            print(f"FAILED  {error}", flush=True)
            failures.append(f"{name} ({client})")
            continue
        results += found
        for result in found:
            for peer in ("first", "second"):
                print(row(result, peer), flush=True)
            if result["pauses"]:
                print(f"{'':<21}{result['way']:<7}pauses at the change: near {result['pauses']['first']}, far {result['pauses']['second']}")
        minutes = (time.monotonic() - started) / 60
        print(f"  … {count} of {len(plan)}, {minutes:.1f} min: {PROFILES[name].what}", flush=True)
    return results, failures


def run_group(options, failures):
    """The room of eight, where it is asked for: its figures."""
    if options.profiles and GROUP not in options.profiles.split(",") or "chromium" not in options.clients.split(","):
        return None
    try:
        found = group.measure()
    except (AssertionError, subprocess.TimeoutExpired) as error:
        print(f"FAILED  {error}", flush=True)
        return failures.append(GROUP)
    print(f"group: {found}", flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profiles")
    parser.add_argument("--clients", default="wrtc,chromium")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--out", default=str(ROOT / "bench/out/lab"))
    parser.add_argument("--no-direct", action="store_true")
    parser.add_argument("--no-red", action="store_true", help="no calls with redundant sound")
    parser.add_argument("--apart", action="store_true", help="never two calls at a time")
    parser.add_argument("--docs", action="store_true", help="write docs/quality.md")
    parser.add_argument("--list", action="store_true", help="the profiles")
    options = parser.parse_args()
    if options.list:
        return print("\n".join(f"{profile.name:<12}{profile.what}" for profile in PROFILES.values()))
    if os.geteuid() != 0:
        sys.exit("lab.py: network namespaces need root")
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]
    results, failures = run(options, list(planned(options)))
    room = run_group(options, failures)
    for client, name in dict.fromkeys((result["client"], result["profile"]) for result in results):
        plot = out / f"{name}{'' if client == 'wrtc' else '-' + client}.svg"
        draw(plot, [result for result in results if (result["client"], result["profile"]) == (client, name)], PROFILES[name].what)
    about = quality.about(datetime.date.today().isoformat(), options.seconds, load)
    (out / "lab.json").write_text(json.dumps({"about": about, "results": results, "group": room}))
    if options.docs:
        quality.write(ROOT / "docs", about, results, room, out)
    targets = judge(results, room)
    for client, target, holds, measured in targets:
        print(f"{'holds ' if holds else 'MISSED'}  {client}: {target}: {measured}")
    held = sum(holds for _, _, holds, _ in targets)
    broken = f", FAILED: {', '.join(failures)}" if failures else ""
    print(f"lab: {len(results)} calls, {held} of {len(targets)} targets hold{broken}; figures and plots in {out}")
    return 1 if failures or not (results or room) else 0


if __name__ == "__main__":
    sys.exit(main())
