#!/usr/bin/env python3
"""Calls of real clients over emulated networks, through the relay and without it, side by side.

Usage: lab.py [--profiles NAME,…] [--seconds N] [--out DIR] [--no-direct] [--json]
Prints one table and which targets hold; writes the figures (JSON) and a plot for each profile (SVG). Needs the clients of
Tests/interop/requirements.txt in the Python that runs it, and a network namespace of its own if ports 8080 and 40000 are taken.
"""
import argparse
import asyncio
import json
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]

from clients import DirectCall, RelayCall  # noqa: E402
from link import Link  # noqa: E402
from plots import draw  # noqa: E402
from profiles import PROFILES  # noqa: E402
from relay import Relay  # noqa: E402
from targets import judge  # noqa: E402

SETTLE = 4  # seconds of a perfect link first, in which the clients' own estimators rise


async def measure(call, link, seconds):
    """Samples of both clients, once a second, from the moment the profile begins."""
    await call.start()
    await asyncio.sleep(SETTLE)
    link.begin()
    started = time.monotonic()
    series = []
    for second in range(seconds + 1):
        await asyncio.sleep(max(0, started + second - time.monotonic()))
        series.append({"at": time.monotonic() - started, "first": await call.first.sample(), "second": await call.second.sample()})
    await call.stop()
    return series


def summary(series):
    """For each client: what it saw of the other in the whole time."""
    found = {}
    for name in ("first", "second"):
        begin, end = series[0][name], series[-1][name]
        span = series[-1]["at"] - series[0]["at"]

        def grown(field):
            return end[field] - begin[field]

        rates = [
            (b[name]["videoBytes"] - a[name]["videoBytes"]) * 8 / 1000 / (b["at"] - a["at"]) for a, b in zip(series, series[1:])]
        samples = max(1, grown("samples"))
        found[name] = {
            "framesPerSecond": round(grown("frames") / span, 1), "freezes": grown("freezes"),
            "freezeSeconds": round(grown("freezeSeconds"), 2), "videoKbit": round(grown("videoBytes") * 8 / 1000 / span),
            "leastKbit": round(min(rates)), "concealedPercent": round(100 * (grown("concealed") - grown("silentConcealed")) / samples, 2),
            "audioLossPercent": round(100 * grown("audioLost") / max(1, grown("audioPackets") + grown("audioLost")), 2),
            "roundTripMs": round(end["roundTrip"] * 1000), "nacks": grown("nacks"), "plis": grown("plis"), "keyFrames": grown("keyFrames"),
        }
    return found


def run(profile, seconds, is_direct):
    if is_direct:
        link = Link(profile)
        try:
            series = asyncio.run(measure(DirectCall(link), link, seconds))
        finally:
            counters = link.end()
    else:
        with Relay() as relay:
            host, port = relay.media.rsplit(":", 1)
            link = Link(profile, b_peer=(host, int(port)))
            try:
                series = asyncio.run(measure(RelayCall(relay, link), link, seconds))
            finally:
                counters = link.end()
    return {"profile": profile.name, "way": "direct" if is_direct else "relay", "link": counters, "series": series, **summary(series)}


COLUMNS = (
    ("framesPerSecond", "frames/s"), ("freezes", "freezes"), ("freezeSeconds", "frozen s"), ("videoKbit", "kbit/s"), ("leastKbit", "least"),
    ("concealedPercent", "conceal %"), ("audioLossPercent", "a-loss %"), ("roundTripMs", "rtt ms"), ("nacks", "nack"), ("plis", "pli"))


def row(result, name):
    cells = "".join(f"{result[name][field]:>11}" for field, _ in COLUMNS)
    return f"{result['profile']:<11}{result['way']:<8}{'near sees' if name == 'first' else 'far sees':<10}{cells}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profiles", default=",".join(PROFILES))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--out", default=str(HERE.parent.parent / "bench/out/lab"))
    parser.add_argument("--no-direct", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    results = []
    print(f"{'profile':<11}{'way':<8}{'':<10}" + "".join(f"{title:>11}" for _, title in COLUMNS), flush=True)
    for name in options.profiles.split(","):
        for is_direct in (False,) if options.no_direct else (False, True):
            result = run(PROFILES[name], options.seconds, is_direct)
            results.append(result)
            for client in ("first", "second"):
                print(row(result, client), flush=True)
        draw(out / f"{name}.svg", [result for result in results if result["profile"] == name])
    (out / "lab.json").write_text(json.dumps(results))
    if options.json:
        for result in results:
            print(json.dumps({key: value for key, value in result.items() if key != "series"}))
    targets = judge(results)
    for target, holds, measured in targets:
        print(f"{'holds ' if holds else 'MISSED'}  {target}: {measured}")
    held = sum(holds for _, holds, _ in targets)
    print(f"lab: {len(results)} calls, {held} of {len(targets)} targets hold; figures and plots in {out}")


if __name__ == "__main__":
    main()
