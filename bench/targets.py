"""What the bench holds the relay to: each target by the figures that show it. Pure: figures in, rows out."""

import dataclasses


@dataclasses.dataclass
class Row:
    name: str
    target: str
    measured: str
    met: bool | None  # None: not measured, or nothing to hold it to
    note: str = ""
    why: str = ""  # where it is missed


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
    single = figures.all("fwd_ratio", batch=64, burst=1, receivers=1)
    bursts = figures.all("fwd_ratio_l1g", batch=64, burst=4, receivers=1)
    group = figures.all("fwd_ratio", batch=64, burst=1, receivers=3)
    yield at_most("Forwarding step to the limit L1, batch 64: worst of sizes and participants", "≤ 1.10", worst(single), 1.10, note=spread(single))
    yield at_most("The same with bursts of 4 to L1g", "≤ 1.10", worst(bursts), 1.10, note=spread(bursts))
    yield at_most("The same with three receivers to L1", "≤ 1.10", worst(group), 1.10, note=spread(group))


def spread(lines):
    return ", ".join(f"{line['context']['packet_bytes']} B × {line['context']['participants']}: {number(line['value'])}" for line in lines)


def scale(figures):
    """Flat in the number of participants, linear in workers."""
    flat = figures.all("scale_flatness")
    note = ", ".join(f"{line['context']['packet_bytes']} B: {number(line['value'])}" for line in flat)
    yield at_most("Ratio to L1g from 10 to 5,000 participants: highest to lowest", "≤ 1.10", worst(flat), 1.10, note=note)
    pairs = figures.all("scale_two_workers")
    note = ", ".join(f"{line['context']['packet_bytes']} B: {number(line['value'])}" for line in pairs)
    yield at_least("Two workers on two processors do the work of", "≥ 1.8", min((line["value"] for line in pairs), default=None), 1.8, note=note)


def instructions(figures):
    found = figures.all("instructions_ratio")
    note = ", ".join(f"{line['context']['packet_bytes']} B, burst {line['context']['burst']}: {number(line['value'])}" for line in found)
    yield at_most("Instructions of a forwarded packet to the limit's, worst row", "≤ 1.30", worst(found), 1.3, note=note)


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
    met = None if ratio is None else ratio >= 0.8
    yield Row("DTLS handshakes on a core to what openssl speed allows", "near 1", number(ratio) if ratio else "not measured", met, f"{number(figures.value('handshakes_per_core'))} a second")


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


# Why a target is missed, by what its row's name begins with. Figures of the profile are put in where there are some.
REASONS = {
    "Forwarding step": "memory that no cache holds: two key schedules, eight records and a kilobyte of history a packet, where the limit has the schedules and one record",
    "The same with bursts": "the same: what is kept for repairs, and records of each participant",
    "The same with three": "the same, and who is heard and seen",
    "Instructions": "extensions read and written anew, both legs' feedback windows, statistics and rate limit, which the limit does not have",
    "CPU of the whole worker": "feedback and reports, their datagrams in the kernel, and what is kept for repairs",
    "Calls on a core": "the same as of the CPU of the whole worker",
    "Added latency": "feedback, reports and estimates of paths on the same thread; on a shared machine also what else it does, in both",
    "DTLS handshakes": "OpenSSL 3.0's look-ups of algorithms, its allocations, and the client's certificate taken apart, beside the arithmetic that openssl speed counts",
}


def why(row, figures):
    reason = next((text for name, text in REASONS.items() if row.name.startswith(name)), "")
    parts = excess(figures)
    if parts and row.name.startswith(("CPU of the whole worker", "Calls on a core")):
        reason = "of a packet, beside the limit: " + ", ".join(f"{part} {number(more)} ns" for part, more in parts[:4])
    return reason


def excess(figures):
    """What the worker needs more than the limit for a packet, part by part, the most first, ns."""
    ours, theirs = ({line["context"]["part"]: line["value"] for line in figures.all("profile", view="samples", of=of)} for of in ("relay", "limit"))
    if not ours or not theirs:
        return []
    more = {part: value - theirs.get(part, 0) for part, value in ours.items()}
    return sorted(((part, value) for part, value in more.items() if value > 20), key=lambda pair: -pair[1])


def profile_rows(lines):
    """Of a profile: title, head, rows."""
    figures = Figures(lines)
    sides = {of: {line["context"]["part"]: line["value"] for line in figures.all("profile", view="samples", of=of)} for of in ("relay", "limit")}
    if sides["relay"]:
        parts = sorted(set(sides["relay"]) | set(sides["limit"]), key=lambda part: -sides["relay"].get(part, 0))
        yield "CPU of a packet at 20k packets/s, sound and video, by part (perf), ns", ("part", "relay", "limit"), [
            (part, *(number(sides[of].get(part, 0)) for of in ("relay", "limit"))) for part in parts]
    for row in dict.fromkeys(line["context"]["row"] for line in figures.all("profile", view="instructions")):
        for of in dict.fromkeys(line["context"]["of"] for line in figures.all("profile", view="instructions", row=row)):
            found = figures.all("profile", view="instructions", row=row, of=of)
            yield f"Instructions of a packet, {row.replace('/', ' / ')}, {of} (callgrind)", ("function", "instructions"), [
                (line["context"]["part"], number(line["value"])) for line in found]
    handshake = figures.all("profile", view="handshake")
    if handshake:
        yield "Instructions of a DTLS handshake, the relay's side (callgrind), thousands", ("where", "what", "instructions"), [
            (line["context"]["of"], line["context"]["part"], number(line["value"])) for line in handshake]


def profile(lines):
    """As text."""
    text = ""
    for title, head, rows in profile_rows(lines):
        widths = [max(len(line[column]) for line in [head, *rows]) for column in range(len(head))]
        text += f"\n{title}\n" + "".join("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() + "\n" for line in [head, *rows])
    return text


def profile_markdown(lines):
    text = ""
    for title, head, rows in profile_rows(lines):
        text += f"\n{title}:\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}\n"
        text += "".join("| " + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in line) + " |\n" for line in rows[:12])
    return text


def rows(lines):
    figures = Figures(lines)
    found = [row for part in (forwarding, scale, instructions, cost, capacity, footprint, storms, group, control) for row in part(figures)]
    for row in found:
        if row.met is False:
            row.why = why(row, figures)
    return found


def table(rows):
    """As text, for the end of a run; what is missed with the reason below."""
    verdict = {True: "met", False: "MISSED", None: ""}
    cells = [("metric", "target", "measured", "", "")] + [(row.name, row.target, row.measured, verdict[row.met], row.note) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)) + "  " + line[4] for line in cells]
    missed = [f"  {row.name}: {row.why}" for row in rows if row.met is False and row.why]
    return "\n".join(lines + (["", "Missed because of:", *missed] if missed else []))


def markdown(rows):
    """For docs/performance.md."""
    verdict = {True: "met", False: "**missed**", None: ""}
    lines = ["| metric | target | measured | |", "|---|---|---|---|"]
    for row in rows:
        if row.measured != "not measured":
            note = f" ({row.note})" if row.note else ""
            reason = f": {row.why}" if row.why else ""
            lines.append(f"| {row.name} | {row.target} | {row.measured}{note} | {verdict[row.met]}{reason} |")
    return "\n".join(lines)
