"""The lab's targets: what a call must be like on a bad network, held against the measured calls. A target without its profile's
calls in the run is not judged."""


def changes(series, name, field):
    """What `field` of one client grew by, second by second, with the time at the end of each."""
    return [(b["at"], b[name][field] - a[name][field]) for a, b in zip(series, series[1:])]


def longest_freeze(series, name):
    """Seconds. The statistics tell sums: within one second the freezes are taken as equally long."""
    seconds = zip(changes(series, name, "freezes"), changes(series, name, "freezeSeconds"))
    return max([0.0] + [time / max(1, count) for (_, count), (_, time) in seconds])


def rate(series, name, field, since, until):
    """kbit/s between two moments of the series, seconds."""
    within = [sample for sample in series if since <= sample["at"] <= until + 0.5]
    first, last = within[0], within[-1]
    return (last[name][field] - first[name][field]) * 8 / 1000 / (last["at"] - first["at"])


def loss_5(relay, direct):
    freeze = max(longest_freeze(relay["series"], name) for name in ("first", "second"))
    without = max(longest_freeze(direct["series"], name) for name in ("first", "second")) if direct else None
    compared = "" if without is None else f" (direct {without * 1000:.0f})"
    yield "5 % loss: no freeze over 250 ms", freeze <= 0.25, f"longest {freeze * 1000:.0f} ms{compared}"
    if direct:
        worst = max(relay[name]["concealedPercent"] - direct[name]["concealedPercent"] for name in ("first", "second"))
        yield "5 % loss: concealed sound ≤ direct + 0.5 points", worst <= 0.5, f"{worst:+.2f} points"


def step(relay, direct):
    series = relay["series"]
    cut, end = 10, 25  # as in the profile
    sent = rate(series, "first", "sentBytes", cut + 3, end)
    yield "cut to 400 kbit/s: sender within 20 % of it after 3 s", 320 <= sent <= 480, f"{sent:.0f} kbit/s"
    lost = sum(grown for at, grown in changes(series, "second", "audioLost") if at > cut)
    got = sum(grown for at, grown in changes(series, "second", "audioPackets") if at > cut)
    yield "cut: sound lost < 1 %", lost < 0.01 * max(1, got + lost), f"{100 * lost / max(1, got + lost):.2f} %"
    freeze = longest_freeze([sample for sample in series if sample["at"] >= cut - 1], "second")
    yield "cut: picture never frozen over 1 s", freeze <= 1, f"longest {freeze * 1000:.0f} ms"
    before = rate(series, "second", "videoBytes", cut - 4, cut)
    back = [at for at, grown in changes(series, "second", "videoBytes") if at > end and grown * 8 / 1000 >= 0.8 * before]
    yield "cut over: back at 80 % within 20 s", bool(back) and back[0] <= end + 20, (
        f"after {back[0] - end:.0f} s" if back else f"not in {series[-1]['at'] - end:.0f} s")


TARGETS = {"loss-5": loss_5, "step": step}


def judge(results):
    """(target, holds, what was measured) of every target whose profile was run."""
    found = []
    for profile, target in TARGETS.items():
        calls = {result["way"]: result for result in results if result["profile"] == profile}
        if "relay" in calls:
            found += target(calls["relay"], calls.get("direct"))
    return found
