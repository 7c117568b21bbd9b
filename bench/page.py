"""The HTML report: one file, plots as SVG in it, nothing from elsewhere. Pure: figures and history in, text out."""

import html

from targets import Figures, PROFILES, number, profile_rows

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2.5rem auto; max-width: 62rem; padding: 0 1.5rem; color: #1c2430; background: #fff }
h1 { font-size: 1.7rem; margin-bottom: .2rem } h2 { font-size: 1.15rem; margin: 2.4rem 0 .4rem } .dim { color: #66707f }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .4rem .6rem; border-bottom: 1px solid #e3e7ec; vertical-align: top }
th { font-weight: 600; color: #66707f; font-size: .85rem } td.n { white-space: nowrap; font-variant-numeric: tabular-nums }
.met { color: #1a7f4b; font-weight: 600 } .missed { color: #c0392b; font-weight: 600 } .note { color: #66707f; font-size: .85rem }
figure { margin: .6rem 0 0 } svg { width: 100%; height: auto } svg text { font: 12px system-ui, sans-serif; fill: #3c4654 }
summary { cursor: pointer; padding: .35rem 0 }
.verdict { font-size: 1.05rem; margin: 1rem 0 0 }
"""
COLOURS = {"relay": "#2f5fb3", "limit": "#9aa5b4", "L0": "#d5dae1", "L1": "#9aa5b4", "L1g": "#6c7788"}
WIDTH = 960


def text(x, y, content, anchor="start", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {extra}>{html.escape(str(content))}</text>'


def bars(groups, unit):
    """Groups of bars side by side: [(label, [(name, value)])]."""
    groups = [(label, [(name, value) for name, value in values if value is not None]) for label, values in groups]
    groups = [group for group in groups if group[1]]
    if not groups:
        return ""
    most = max(value for _, values in groups for _, value in values) * 1.12
    height, left, bottom = 280, 64, 44
    names = list(dict.fromkeys(name for _, values in groups for name, _ in values))
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img">']
    for step in range(5):
        y = 26 + (height - 26 - bottom) * (1 - step / 4)
        parts.append(f'<line x1="{left}" x2="{WIDTH - 8}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e3e7ec"/>')
        parts.append(text(left - 8, y + 4, number(most * step / 4), "end"))
    parts.append(text(left - 8, 14, unit, "end", 'style="fill:#66707f"'))
    for index, name in enumerate(names):
        x = left + 110 * index
        parts.append(f'<rect x="{x}" y="4" width="11" height="11" rx="2" fill="{COLOURS.get(name, "#b3702f")}"/>' + text(x + 17, 14, name))
    room = (WIDTH - left - 8) / len(groups)
    for place, (label, values) in enumerate(groups):
        width = min(46, room * 0.8 / len(values))
        start = left + room * place + (room - width * len(values)) / 2
        for index, (name, value) in enumerate(values):
            tall = (height - 26 - bottom) * value / most
            x, y = start + width * index, height - bottom - tall
            parts.append(f'<rect x="{x + 1:.1f}" y="{y:.1f}" width="{width - 2:.1f}" height="{tall:.1f}" rx="2" fill="{COLOURS.get(name, "#b3702f")}"><title>{html.escape(name)}: {number(value)} {unit}</title></rect>')
            if width > 26:
                parts.append(text(x + width / 2, y - 4, number(value), "middle", 'style="font-size:10.5px"'))
        for line, words in enumerate(label.split("\n")):
            parts.append(text(left + room * (place + 0.5), height - bottom + 16 + 15 * line, words, "middle"))
    return "".join(parts) + "</svg>"


LINES = ("#2f5fb3", "#b3702f", "#1a7f4b", "#8a4fb3", "#c0392b", "#66707f")


def history_plot(runs, wanted, limit):
    """Ratios of the recorded runs, one line each; dashed: the target."""
    series = {name: [(place, run["figures"][key]) for place, run in enumerate(runs) if key in run["figures"]] for key, name in wanted.items()}
    series = {name: points for name, points in series.items() if points}
    if not series:
        return ""
    height, left, bottom = 260, 64, 46
    values = [value for points in series.values() for _, value in points] + [limit]
    low, high = min(values) - 0.05, max(values) + 0.05
    place_x = lambda place: left + 14 + (WIDTH - left - 40) * (place / max(1, len(runs) - 1))
    place_y = lambda value: 26 + (height - 26 - bottom) * (high - value) / (high - low)
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img">']
    for step in range(5):
        value = low + (high - low) * step / 4
        parts.append(f'<line x1="{left}" x2="{WIDTH - 8}" y1="{place_y(value):.1f}" y2="{place_y(value):.1f}" stroke="#e3e7ec"/>' + text(left - 8, place_y(value) + 4, f"{value:.2f}", "end"))
    parts.append(f'<line x1="{left}" x2="{WIDTH - 8}" y1="{place_y(limit):.1f}" y2="{place_y(limit):.1f}" stroke="#c0392b" stroke-dasharray="5 4"/>')
    for place in range(0, len(runs), max(1, len(runs) // 8)):
        parts.append(text(place_x(place), height - bottom + 18, runs[place]["date"][:10], "middle") + text(place_x(place), height - bottom + 32, runs[place]["commit"], "middle", 'style="font-size:10.5px"'))
    for index, (name, points) in enumerate(series.items()):
        colour = LINES[index % len(LINES)]
        path = " ".join(f"{place_x(place):.1f},{place_y(value):.1f}" for place, value in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{place_x(place):.1f}" cy="{place_y(value):.1f}" r="3.5" fill="{colour}"/>' for place, value in points]
        parts.append(f'<rect x="{left + 220 * index}" y="4" width="11" height="11" rx="2" fill="{colour}"/>' + text(left + 17 + 220 * index, 14, name))
    return "".join(parts) + "</svg>"


def tables(lines):
    """The profile."""
    for title, head, rows in profile_rows(lines):
        cells = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        yield f"<details><summary>{html.escape(title)}</summary><table><tr>{''.join(f'<th>{html.escape(cell)}' for cell in head)}</tr>{cells}</table></details>"


def plots(figures, runs):
    rows = [line["context"] for line in figures.all("fwd_ratio", batch=64)]
    keys = ("packet_bytes", "batch", "participants", "burst", "receivers")
    steps = [(f"{row['packet_bytes']} B, {row['participants']:,}\nburst {row['burst']}" + (f", to {row['receivers']}" if row["receivers"] > 1 else ""), [(name, figures.value(f"fwd_ns_{name.lower()}", **{key: row[key] for key in keys})) for name in ("L0", "L1", "L1g", "relay")]) for row in rows]
    yield "The forwarding step", "CPU a packet in one thread, batch of 64, by packet size and participants. L0: the kernel's part alone; L1: and the cipher; L1g: and UDP GSO.", bars(steps, "ns")
    loads = [(profile, words, line["context"]["packets_per_second"]) for profile, words in PROFILES for line in figures.all("cpu_ratio", profile=profile)]

    def both(metric):
        return [(f"{words}\n{rate // 1000}k packets/s", [(name, figures.value(metric, profile=profile, packets_per_second=rate, forwarder=name)) for name in ("relay", "limit")]) for profile, words, rate in loads]

    yield "The whole process under load", "CPU a forwarded packet, wake-ups and everything else included, at constant rates with real ICE, DTLS and SRTP clients.", bars(both("cpu_ns_per_fwd"), "ns")
    yield "Added latency, p50", "From the turn that sends a packet to the kernel's stamp of its arrival at the other client.", bars(both("added_latency_us_p50"), "µs")
    yield "Added latency, p99", "The same. What a shared machine does now and then is in both.", bars(both("added_latency_us_p99"), "µs")
    calls = [(words, [(name, figures.value("calls_per_core_zero_loss", profile=profile, forwarder=name)) for name in ("relay", "limit")]) for profile, words in PROFILES]
    yield "Calls on a core", "1:1 calls without one lost packet, the last rung of a ladder with steps of 12 %.", bars(calls, "calls")
    wanted = {"cpu_ratio av 20000": "whole process, video, 20k", "cpu_ratio audio 20000": "whole process, sound, 20k", "fwd_ratio worst": "step, worst row"}
    yield "Over time", "Ratios to the limit in the runs that are recorded; dashed: 1.25.", history_plot(runs, wanted, 1.25)


def note(words):
    return f'<div class="note">{html.escape(words)}</div>'


def page(rows, lines, runs, machine):
    figures = Figures(lines)
    verdict = {True: '<span class="met">met</span>', False: '<span class="missed">missed</span>', None: ""}
    body = "".join(
        f'<tr><td>{html.escape(row.name)}{note(row.note)}{note("Missed because of: " + row.why) if row.why else ""}</td><td class="n">{html.escape(row.target)}</td>'
        f'<td class="n">{html.escape(row.measured)}</td><td>{verdict[row.met]}</td></tr>' for row in rows)
    held = [row.met for row in rows if row.met is not None]
    where = "".join(tables(lines))
    where = where and f"<h2>Where the time goes</h2>{where}"
    drawn = "".join(f'<h2>{html.escape(title)}</h2><div class="dim">{html.escape(words)}</div><figure>{svg}</figure>' for title, words, svg in plots(figures, runs) if svg)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>MediaRelay bench</title><style>{STYLE}</style>'
        f'<h1>MediaRelay beside the limit</h1><div class="dim">{html.escape(machine["date"])} · commit {html.escape(machine["commit"])} · {html.escape(machine["processor"])}, '
        f'{machine["processors"]} processors, Linux {html.escape(machine["kernel"])}</div>'
        f'<p class="verdict">{sum(held)} of {len(held)} targets that were measured are met.</p>'
        '<p class="dim">Ratios are to a process in C that does only what any forwarder must, in windows that take turns in the same run. They hold on another machine; nanoseconds do not.</p>'
        f'<table><tr><th>Metric<th>Target<th>Measured<th></tr>{body}</table>{where}{drawn}</html>\n')
