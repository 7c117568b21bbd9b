"""What the bench holds the relay to: each target by the figures that show it. Pure: figures in, rows out."""

import dataclasses


@dataclasses.dataclass
class Row:
    name: str
    target: str
    measured: str
    met: bool | None  # None: not measured, or nothing to hold it to
    note: str = ""


class Figures:
    """The lines of a run: {"metric", "value", "unit", "context"}."""

    def __init__(self, lines):
        self.lines = lines

    def all(self, metric, **context):
        return [line for line in self.lines if line["metric"] == metric and all(line["context"].get(key) == value for key, value in context.items())]

    def value(self, metric, **context):
        found = self.all(metric, **context)
        return found[-1]["value"] if found else None


def number(value):
    """Three digits that count, no exponent."""
    if value is None:
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def at_most(name, target, value, limit, unit="", note=""):
    return Row(name, target, f"{number(value)}{unit}" if value is not None else "not measured", None if value is None else value <= limit, note)


def at_least(name, target, value, limit, unit="", note=""):
    return Row(name, target, f"{number(value)}{unit}" if value is not None else "not measured", None if value is None else value >= limit, note)


def worst(lines):
    return max((line["value"] for line in lines), default=None)


def forwarding(figures):
    single = figures.all("fwd_ratio", batch=64, burst=1)
    bursts = figures.all("fwd_ratio_l1g", batch=64, burst=4)
    yield at_most("Forwarding step to the limit L1, batch 64: worst of sizes and participants", "≤ 1.10", worst(single), 1.10, note=spread(single))
    yield at_most("The same with bursts of 4 to L1g", "≤ 1.10", worst(bursts), 1.10, note=spread(bursts))


def spread(lines):
    return ", ".join(f"{line['context']['packet_bytes']} B × {line['context']['participants']}: {number(line['value'])}" for line in lines)


PROFILES = (("audio", "sound"), ("av", "sound and video"))


def cost(figures):
    for profile, words in PROFILES:
        for line in figures.all("cpu_ratio", profile=profile):
            rate = line["context"]["packets_per_second"]
            ours, theirs = (figures.value("cpu_ns_per_fwd", profile=profile, packets_per_second=rate, forwarder=name) for name in ("relay", "limit"))
            note = f"{number(ours)} to {number(theirs)} ns a packet"
            yield at_most(f"CPU of the whole worker to the limit process, {rate // 1000}k packets/s, {words}", "≤ 1.25", line["value"], 1.25, note=note)


def capacity(figures):
    for profile, words in PROFILES:
        ratio = figures.all("calls_per_core_ratio", profile=profile)
        ours, theirs = (figures.value("calls_per_core_zero_loss", profile=profile, forwarder=name) for name in ("relay", "limit"))
        note = f"{number(ours)} to {number(theirs)} calls" if ratio else ""
        if ratio and ratio[-1]["context"]["generator_bound"]:
            note += f", where the generator was at its end; the ratio is of full cores by the load at {ratio[-1]['context']['at_calls']} calls"
        yield at_least(f"Calls on a core without loss, to the limit's, {words}", "≥ 0.85", ratio[-1]["value"] if ratio else None, 0.85, note=note)
        latency = figures.all("half_load_latency_over_limit_us_p99", profile=profile)
        note = f"{number(latency[-1]['context']['relay'])} to {number(latency[-1]['context']['limit'])} µs" if latency else ""
        yield at_most(f"Added latency p99 at half load over the limit's, {words}", "≤ 300 µs", latency[-1]["value"] if latency else None, 300, " µs", note)


def footprint(figures):
    prepared, joined = figures.value("rss_prepared"), figures.value("rss_joined_call")
    yield at_most("Memory of a prepared participant in the worker", "≤ 8 KB", prepared and prepared / 1024, 8, " KB")
    silent = figures.value("rss_joined_call_silent")
    note = f"its packet history included; {silent / 1024:.1f} KB before the first packet" if silent else ""
    yield at_most("Memory of a joined 1:1 video call in the worker", "≤ 64 KB", joined and joined / 1024, 64, " KB", note)
    yield at_most("1,000 prepared participants without media", "≤ 3 % of a core", figures.value("idle_core_percent"), 3, " %")
    ratio = figures.value("handshake_ratio_to_openssl")
    yield Row("DTLS handshakes on a core to what openssl speed allows", "near 1", number(ratio) if ratio else "not measured", None, f"{number(figures.value('handshakes_per_core'))} a second")


def storms(figures):
    line = figures.all("storm_latency_over_quiet_us_p99")
    note = f"{number(line[-1]['context']['quiet'])} before, {number(line[-1]['context']['storm'])} µs during {number(line[-1]['context']['joins_per_second'])} joins/s" if line else ""
    yield at_most("Added latency p99 while 200 people join a second, over before", "≤ 300 µs", line[-1]["value"] if line else None, 300, " µs", note)


def group(figures):
    ratio = figures.value("group_cpu_to_predicted")
    met = None if ratio is None else abs(ratio - 1) <= 0.15
    yield Row("CPU of rooms of eight to what forwarding predicts", "1 ± 0.15", number(ratio) if ratio else "not measured", met, f"{number(figures.value('group_cpu_ns_per_fwd'))} ns a packet" if ratio else "")


def control(figures):
    gate = [line["value"] for line in figures.all("ring_gate_ms_p99")]
    # Of the two rates that are run, the one that leaves processors free.
    yield at_most("Join request read → gate open, p99", "≤ 1 ms", gate[-1] if gate else None, 1, " ms")
    first = figures.all("ring_first_packet_ms_p50")
    yield Row("Join request → first packet, 20 ms audio, p50", "–", f"{number(first[-1]['value'])} ms" if first else "not measured", None)
    events, commit = figures.value("journal_events_per_second", calls_held=0), figures.value("simulated_commit_ms_p99", calls_held=0)
    yield Row("Events a second through conductor, journal and HTTP", "–", number(events) if events else "not measured", None, f"commit p99 {number(commit)} ms" if commit else "")
    each = figures.all("control_us_per_event")
    if len(each) > 1:
        held = each[-1]["context"]["calls_held"]
        note = f"{number(each[-1]['value'])} to {number(each[0]['value'])} µs"
        yield at_most("Control's CPU per event beside 9,500 calls that stay to that beside none", "≤ 1.10", each[-1]["value"] / each[0]["value"], 1.1, note=f"{note}, {held} calls held")


def rows(lines):
    figures = Figures(lines)
    return [row for part in (forwarding, cost, capacity, footprint, storms, group, control) for row in part(figures)]


def table(rows):
    """As text, for the end of a run."""
    verdict = {True: "met", False: "MISSED", None: ""}
    cells = [("metric", "target", "measured", "", "")] + [(row.name, row.target, row.measured, verdict[row.met], row.note) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(4)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)) + "  " + line[4] for line in cells)


def markdown(rows):
    """For docs/performance.md."""
    verdict = {True: "met", False: "**missed**", None: ""}
    lines = ["| metric | target | measured | |", "|---|---|---|---|"]
    for row in rows:
        if row.measured != "not measured":
            note = f" ({row.note})" if row.note else ""
            lines.append(f"| {row.name} | {row.target} | {row.measured}{note} | {verdict[row.met]} |")
    return "\n".join(lines)
