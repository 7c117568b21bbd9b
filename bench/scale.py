#!/usr/bin/env python3
"""What a packet costs beside the limit from 10 to 5,000 participants, and what two workers do on two processors: RelayBench, which feeds
itself, once alone and then twice at once, each on a processor of its own. Prints lines of JSON for bench.py; progress goes to standard error."""

import json
import os
import pathlib
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parent.parent / ".build" / "release" / "RelayBench"
PARTICIPANTS = (10, 100, 1000, 5000)
PACKET_BYTES = (120, 1150)
ROUNDS = "200"


def start(processor, *arguments):
    """RelayBench on one processor."""
    return subprocess.Popen(
        [str(BENCH), "--json", "--rounds", ROUNDS, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {processor}))


def figures(process):
    """Its figures by name, with what they are of."""
    output, _ = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"scale: RelayBench ended with {process.returncode}")
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def tell(metric, value, unit, **context):
    print(json.dumps({"metric": metric, "value": round(value, 4), "unit": unit, "context": context}), flush=True)


def say(text):
    print(f"     {text}", file=sys.stderr, flush=True)


def value(lines, metric):
    for line in lines:
        if line["metric"] == metric:
            return line["value"]
    raise SystemExit(f"scale: RelayBench told no {metric}")


def participants(processor):
    for size in PACKET_BYTES:
        ratios = []
        for count in PARTICIPANTS:
            ratio = value(figures(start(processor, "--row", f"{size}/64/{count}/4")), "fwd_ratio_l1g")
            say(f"{size} B, {count} participants: {ratio:.2f} of the limit's CPU")
            tell("scale_ratio", ratio, "ratio", packet_bytes=size, participants=count)
            ratios.append(ratio)
        tell("scale_flatness", max(ratios) / min(ratios), "ratio", packet_bytes=size)


def workers(processors):
    """How many workers' work two do at once: 2 is linear."""
    for size in PACKET_BYTES:
        row = ["--row", f"{size}/64/2000/4"]
        alone = value(figures(start(processors[0], *row)), "fwd_ns_relay")
        pair = [start(processor, *row) for processor in processors[:2]]
        both = [value(figures(process), "fwd_ns_relay") for process in pair]
        speedup = sum(alone / each for each in both)
        say(f"{size} B: two at once do the work of {speedup:.2f} (a packet {alone:,.0f} ns alone, {both[0]:,.0f} and {both[1]:,.0f} ns side by side)")
        tell("scale_two_workers", speedup, "workers", packet_bytes=size)


def main():
    processors = sorted(os.sched_getaffinity(0))
    participants(processors[-1])
    if len(processors) > 1:
        workers(processors)


if __name__ == "__main__":
    main()
