#!/usr/bin/env python3
"""A soak of the built relay: RelayLoad's mixed calls over a bad network for MINUTES, a sample each few seconds, then what must hold of
them. Ends with a table and "soak: N passed, N failed"; bench/out/soak has the samples and report.html.

Usage: soak.py [--minutes N] [--seed N] [--again]     --again: judges and draws the last run's samples, nothing is run
"""
import argparse
import html
import json
import pathlib
import subprocess
import sys

import bench
import page

OUT = bench.OUT / "soak"
MEBIBYTE = 1 << 20

# What the soak's own clients and its emulated network never bring about: if one of these rises, the relay or the clients have a fault.
NEVER = (
    "drops:empty", "drops:oversize", "drops:unknown-class", "drops:stun-malformed", "drops:stun-integrity", "drops:stun-rate-limited",
    "drops:stun-no-credentials", "drops:dtls-rate-limited", "drops:dtls-backlog", "drops:rtp-malformed", "drops:rtp-authentication",
    "drops:rtp-unknown-payload-type", "drops:rtp-unknown-source-rate-limited", "drops:rtp-source-limit", "drops:rtp-too-large",
    "drops:rtp-rate-limited", "drops:red-malformed", "drops:rtcp-too-short", "drops:rtcp-authentication", "drops:rtcp-malformed",
    "drops:transmit-full", "send_errors:", "send_drops:", "sessions_refused_total:", "mailbox_refusals", "news_dropped")

# Bytes that an ended call may leave in control, which is asked about it for an hour (of 20,000 rooms at most).
BYTES_PER_CALL = 24_000
# From this length on those hours are over, and control is held to a flat line as well.
LONG_HOURS = 3


def slope(points):
    """Least squares: y per x; 0 for fewer than three points."""
    if len(points) < 3:
        return 0.0
    middle_x = sum(x for x, _ in points) / len(points)
    middle_y = sum(y for _, y in points) / len(points)
    spread = sum((x - middle_x) ** 2 for x, _ in points)
    return sum((x - middle_x) * (y - middle_y) for x, y in points) / spread if spread else 0.0


class Row:
    def __init__(self, name, bound, measured, met):
        self.name, self.bound, self.measured, self.met = name, bound, measured, met


def warm_up(samples):
    """Seconds that belong to no slope: a fifth of the run, at most 5 min; of a long run 75 min, until ended rooms are forgotten."""
    whole = samples[-1]["t"]
    return 75 * 60 if whole >= LONG_HOURS * 3600 else min(300, whole / 5)


def judge(samples, result):
    """Rows of a run: samples, and the program's own verdict."""
    if len(samples) < 4 or not result:
        return [Row("samples", "4 at least, and an end", f"{len(samples)}, {'an' if result else 'no'} end", False)]
    settled = [one for one in samples if one["t"] >= warm_up(samples)]
    hours = (settled[-1]["t"] - settled[0]["t"]) / 3600
    is_long = samples[-1]["t"] >= LONG_HOURS * 3600
    rows = [
        Row("calls, groups and rings that went as they should", "all", f"{result['calls'] + result['rings']}, {result['failed']} did not",
            result["failed"] == 0),
        Row("gaps in the log of events", "0", f"{samples[-1]['gaps']} in {samples[-1]['events']} events", samples[-1]["gaps"] == 0),
        Row("longest silence of the call that must not notice", "under 1 s", f"{result['steadyGapMs']} ms", result["steadyGapMs"] < 1_000),
    ]
    for process in ("worker", "control"):
        grown = slope([(one["t"] / 3600, one[process]["bytes"]) for one in settled]) * hours
        if process == "control" and not is_long:
            calls = settled[-1]["calls"] - settled[0]["calls"]
            most, words = BYTES_PER_CALL * calls + 2 * MEBIBYTE, f"{BYTES_PER_CALL / 1000:.0f} kB for each of {calls} ended calls"
        else:
            most, words = (2 + hours) * MEBIBYTE, f"2 MiB and 1 MiB an hour: {2 + hours:.1f} MiB"
        rows.append(Row(
            f"resident memory of the {process}, rise of the fitted line", f"at most {words}",
            f"{grown / MEBIBYTE:+.2f} MiB in {hours * 60:.1f} min, {settled[-1][process]['bytes'] / MEBIBYTE:.1f} MiB at the end", grown <= most))
        for name, most in (("descriptors", 8 if process == "control" else 4), ("threads", 0)):
            values = [one[process][name] for one in settled]
            grown = slope([(one["t"] / 3600, one[process][name]) for one in settled]) * hours
            met = grown <= most if most else min(values) == max(values)
            rows.append(Row(f"{name} of the {process}", f"rise of at most {most}" if most else "none more or less",
                            f"{min(values)}…{max(values)}, line {grown:+.1f}", met))
    last = samples[-1]["counters"]
    bad = {name: count for name, count in last.items() if name.startswith(NEVER)}
    rows.append(Row("counters that must stay 0", f"{len(NEVER)} reasons", ", ".join(f"{name} {count}" for name, count in bad.items()) or "0", not bad))
    return rows


def table(rows):
    wide = max(len(row.name) for row in rows)
    return "\n".join(f"{'met   ' if row.met else 'MISSED'} {row.name:{wide}}  {row.measured}  (bound: {row.bound})" for row in rows)


def lines_plot(series, unit, height=230):
    """Lines over minutes: {name: [(minutes, value)]}, axis from 0."""
    series = {name: points for name, points in series.items() if points}
    if not series:
        return ""
    left, bottom, top = 64, 40, 26
    last = max(points[-1][0] for points in series.values()) or 1
    most = max(value for points in series.values() for _, value in points) * 1.1 or 1
    place_x = lambda minutes: left + (page.WIDTH - left - 12) * minutes / last
    place_y = lambda value: top + (height - top - bottom) * (1 - value / most)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {page.WIDTH} {height}" role="img" font-family="system-ui, sans-serif" font-size="12">']
    for step in range(5):
        y = place_y(most * step / 4)
        parts.append(f'<line x1="{left}" x2="{page.WIDTH - 12}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e3e7ec"/>' + page.text(left - 8, y + 4, page.number(most * step / 4), "end"))
        parts.append(page.text(place_x(last * step / 4), height - bottom + 18, f"{last * step / 4:.0f} min" if last >= 8 else f"{last * step / 4:.1f} min", "middle"))
    parts.append(page.text(left - 8, 14, unit, "end"))
    for index, (name, points) in enumerate(series.items()):
        colour = page.LINES[index % len(page.LINES)]
        # No more points than pixels.
        shown = points[::max(1, len(points) // 900)]
        path = " ".join(f"{place_x(x):.1f},{place_y(y):.1f}" for x, y in shown)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        parts.append(f'<rect x="{left + 150 * (index % 6)}" y="{4 + 14 * (index // 6)}" width="11" height="11" rx="2" fill="{colour}"/>' + page.text(left + 17 + 150 * (index % 6), 14 + 14 * (index // 6), name))
    return "".join(parts) + "</svg>"


def over_time(samples, value):
    return [(one["t"] / 60, found) for one in samples if (found := value(one)) is not None]


def rates(samples, value):
    return [(b["t"] / 60, (value(b) - value(a)) / (b["t"] - a["t"])) for a, b in zip(samples, samples[1:]) if b["t"] > a["t"]]


def memory_plot(samples):
    return lines_plot({process: over_time(samples, lambda one, process=process: one[process]["bytes"] / MEBIBYTE) for process in ("worker", "control")}, "MiB")


def plots(samples):
    processes = ("worker", "control")
    yield "Resident memory", "Anonymous pages. Control keeps ended rooms for an hour.", memory_plot(samples)
    for name in ("descriptors", "threads"):
        yield name.capitalize(), "", lines_plot({process: over_time(samples, lambda one, process=process: one[process][name]) for process in processes}, "")
    yield "Processor time", "Of a core, all threads.", lines_plot(
        {process: rates(samples, lambda one, process=process: 100 * one[process]["cpu"]) for process in processes}, "%")
    yield "Load", "Clients on sockets of their own, and those of them who are joined.", lines_plot(
        {"clients": over_time(samples, lambda one: one["clients"]), "joined": over_time(samples, lambda one: one["joined"])}, "")
    reasons = sorted({name for one in samples for name in one["counters"]}, key=lambda name: -samples[-1]["counters"].get(name, 0))[:6]
    yield "Drops by reason", "A second, the six largest. A bad network repeats packets, and people leave while theirs are on the way.", lines_plot(
        {name.split(":")[-1]: rates(samples, lambda one, name=name: one["counters"].get(name, 0)) for name in reasons}, "/s")
    names = {"outcomeMs": "hang-up told", "outcomeWorstMs": "the worst", "createdMs": "call created", "mediaMs": "first media"}
    yield "Latency", "Of ordinary calls in each sample, medians: the hang-up's request to its event at the other side's stream, a call's creation, the answer to the first packet (over the bad network).", lines_plot(
        {words: over_time(samples, lambda one, name=name: one.get(name)) for name, words in names.items()}, "ms")
    yield "Events", "A second; gaps in their numbers would end the run as failed.", lines_plot({"events": rates(samples, lambda one: one["events"])}, "/s")


def report(rows, samples, result, machine):
    cells = "".join(
        f'<tr><td>{html.escape(row.name)}</td><td>{html.escape(row.bound)}</td><td>{html.escape(row.measured)}</td>'
        f'<td class="{"met" if row.met else "missed"}">{"met" if row.met else "missed"}</td></tr>' for row in rows)
    drawn = "".join(f'<h2>{html.escape(title)}</h2><div class="dim">{html.escape(words)}</div><figure>{svg}</figure>' for title, words, svg in plots(samples) if svg)
    faults = "".join(f"<li>{html.escape(fault)}</li>" for fault in (result or {}).get("faults", []))
    minutes = samples[-1]["t"] / 60 if samples else 0
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>MediaRelay soak</title><style>{page.STYLE}</style>'
        f'<h1>A soak of {minutes:.0f} minutes</h1><div class="dim">{html.escape(machine["date"])} · commit {html.escape(machine["commit"])} · {html.escape(machine["processor"])}, '
        f'{machine["processors"]} processors, Linux {html.escape(machine["kernel"])}</div>'
        f'<p class="verdict">{sum(row.met for row in rows)} of {len(rows)} hold. Slopes are of what comes behind the first {warm_up(samples) / 60 if samples else 0:.1f} min.</p>'
        f'<table><tr><th>What<th>Bound<th>Measured<th></tr>{cells}</table>{"<ul>" + faults + "</ul>" if faults else ""}{drawn}</html>\n')


def run(minutes, seed, log):
    command = [str(bench.BINARIES / "RelayLoad"), "soak", "--json", "--seconds", str(minutes * 60), "--seed", str(seed)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with log.open("w") as file:
        for line in process.stdout:
            if line.startswith("{"):
                file.write(line)
                file.flush()
    return process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    log = OUT / "samples.jsonl"
    if not options.again:
        run(options.minutes, options.seed, log)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    samples = [line["sample"] for line in lines if "sample" in line]
    result = next((line["soak"] for line in lines if "soak" in line), None)
    rows = judge(samples, result)
    if samples:
        (OUT / "report.html").write_text(report(rows, samples, result, bench.machine()))
        (OUT / "memory.svg").write_text(memory_plot(samples))
    print("\n" + table(rows) + "\n\nbench/out/soak/report.html has plots")
    missed = sum(not row.met for row in rows)
    print(f"soak: {len(rows) - missed} passed, {missed} failed")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
