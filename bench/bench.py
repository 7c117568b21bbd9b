#!/usr/bin/env python3
"""Runs the measuring programs one after the other and ends with one table: metric, target, measured, met or not. Progress goes to
standard error. Writes bench/out/report.html and, after a whole run, a line of bench/history.jsonl."""

import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys

import page
import targets

HERE = pathlib.Path(__file__).resolve().parent
BINARIES = HERE.parent / ".build" / "release"
OUT = HERE / "out"
HISTORY = HERE / "history.jsonl"
DOCUMENT = HERE.parent / "docs" / "performance.md"
MARKS = ("<!-- figures: bench/bench.py --again --docs -->", "<!-- end of figures -->")

WHOLE = [
    ("forwarding", ["RelayBench", "--json"]),
    *[(name, ["RelayLoad", name, "--json"]) for name in ("cost", "capacity", "footprint", "storm", "group", "calls", "outcomes")],
    ("scale", ["scale.py"]),
    ("instructions", ["instructions.py", "--json"]),
    ("profile", ["profiles.py"]),
]
QUICK = [("forwarding", ["RelayBench", "--quick", "--json"]), ("cost", ["RelayLoad", "cost", "--json", "--rate", "20000", "--count", "3"])]


def run(name, command, echo):
    """The figures that a program printed; None for those of a program that failed."""
    folder = HERE if command[0].endswith(".py") else BINARIES
    process = subprocess.Popen([str(folder / command[0]), *command[1:]], stdout=subprocess.PIPE, text=True)
    lines = []
    for line in process.stdout:
        if echo:
            print(line, end="", flush=True)
        try:
            figure = json.loads(line)
        except ValueError:
            continue
        figure["step"] = name
        lines.append(figure)
    return lines, process.wait()


def commit():
    result = subprocess.run(["git", "-C", str(HERE), "describe", "--always", "--dirty", "--abbrev=8"], capture_output=True, text=True)
    return result.stdout.strip() or "unknown"


def machine():
    model = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    now = datetime.datetime.now(datetime.timezone.utc)
    return {"date": now.strftime("%Y-%m-%d %H:%M UTC"), "commit": commit(), "processor": model, "processors": os.cpu_count(), "kernel": platform.release()}


def summary(lines):
    """The figures that are kept of a run, by name."""
    figures = targets.Figures(lines)
    kept = {}
    for metric in ("calls_per_core_ratio", "half_load_latency_over_limit_us_p99"):
        for line in figures.all(metric):
            kept[f"{metric} {line['context']['profile']}"] = line["value"]
    for line in figures.all("calls_per_core_zero_loss"):
        kept[f"calls_per_core_zero_loss {line['context']['profile']} {line['context']['forwarder']}"] = line["value"]
    for line in figures.all("cpu_ratio"):
        kept[f"cpu_ratio {line['context']['profile']} {line['context']['packets_per_second']}"] = line["value"]
    for line in figures.all("cpu_ns_per_fwd"):
        context = line["context"]
        kept[f"cpu_ns_per_fwd {context['profile']} {context['packets_per_second']} {context['forwarder']}"] = line["value"]
    step = targets.worst(figures.all("fwd_ratio", batch=64, burst=1, receivers=1))
    bursts = targets.worst(figures.all("fwd_ratio_l1g", batch=64, burst=4, receivers=1))
    alone = (
        "rss_prepared", "rss_joined_call", "idle_core_percent", "handshakes_per_core", "handshake_ratio_to_openssl", "group_cpu_to_predicted",
        "storm_latency_over_quiet_us_p99", "ring_gate_ms_p99", "journal_events_per_second")
    kept |= {"fwd_ratio worst": step, "fwd_ratio_l1g worst": bursts} | {name: figures.value(name) for name in alone}
    return {name: value for name, value in kept.items() if value is not None}


def history():
    if not HISTORY.exists():
        return []
    return [json.loads(line) for line in HISTORY.read_text().splitlines() if line.strip()]


def document(rows, here):
    before, rest = DOCUMENT.read_text().split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    where = f"{here['processor']}, {here['processors']} processors, Linux {here['kernel']}; commit {here['commit']}, {here['date']}."
    DOCUMENT.write_text(f"{before}{MARKS[0]}\n{where}\n\n{targets.markdown(rows)}\n{targets.profile_markdown(lines)}{MARKS[1]}{after}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="only JSON lines on standard output")
    parser.add_argument("--quick", action="store_true", help="the forwarding step and one rate, under two minutes")
    parser.add_argument("--only", action="append", help="these steps only: " + ", ".join(name for name, _ in WHOLE))
    parser.add_argument("--again", action="store_true", help="table and report of the last run's figures, nothing is run")
    parser.add_argument("--docs", action="store_true", help="write the figures into docs/performance.md")
    options = parser.parse_args()
    steps = [step for step in (QUICK if options.quick else WHOLE) if not options.only or step[0] in options.only]
    OUT.mkdir(exist_ok=True)
    stored = OUT / "figures.jsonl"
    lines, failures = [], []
    if options.again:
        lines = [json.loads(line) for line in stored.read_text().splitlines()]
        steps = []
    for place, (name, command) in enumerate(steps):
        print(f"[{place + 1}/{len(steps)}] {name}", file=sys.stderr, flush=True)
        found, status = run(name, command, echo=options.json)
        lines += found
        if status != 0:
            failures.append(name)
    here = machine()
    if steps:
        stored.write_text("".join(json.dumps(line) + "\n" for line in lines))
        whole = not options.quick and not options.only and not failures
        if whole:
            with HISTORY.open("a") as file:
                file.write(json.dumps({**here, "figures": summary(lines)}) + "\n")
    rows = targets.rows(lines)
    if options.docs:
        document(rows, here)
    (OUT / "report.html").write_text(page.page(rows, lines, history(), here))
    if not options.json:
        print("\n" + targets.table([row for row in rows if row.measured != "not measured"]))
        print(targets.profile(lines), end="")
        print(f"\nbench/out/report.html has plots. {here['processor']}, {here['processors']} processors, commit {here['commit']}.")
    for name in failures:
        print(f"bench: {name} failed", file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
