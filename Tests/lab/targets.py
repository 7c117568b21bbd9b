"""The lab's targets: what a call must be like on a bad network, held against the measured calls. A target without its profile's
calls in the run is not judged."""

BOTH = ("first", "second")


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


# IPv4, UDP and SRTP's tag, which the link carries with each packet; the RTP header is in the statistics.
OUTSIDE = 20 + 8 + 16


def sent(series, name, since, until):
    """All that a client puts on its link, kbit/s."""
    found = 0
    for kind in ("Video", "Audio"):
        found += sum(rate(series, name, f"sent{kind}{part}", since, until) for part in ("Bytes", "Headers"))
        found += OUTSIDE * rate(series, name, f"sent{kind}Packets", since, until)
    return found


def clean(relay, direct, _calls):
    if direct:
        for field, title in (("framesPerSecond", "frames"), ("videoKbit", "rate")):
            share = min(relay[name][field] / max(1, direct[name][field]) for name in BOTH)
            yield f"clean: {title} ≥ 95 % of the direct call's", share >= 0.95, f"{100 * share:.0f} %"


def loss_5(relay, direct, calls):
    freeze = max(longest_freeze(relay["series"], name) for name in BOTH)
    without = max(longest_freeze(direct["series"], name) for name in BOTH) if direct else None
    compared = "" if without is None else f" (direct {without * 1000:.0f})"
    yield "5 % loss: no freeze over 250 ms", freeze <= 0.25, f"longest {freeze * 1000:.0f} ms{compared}"
    if direct:
        worst = max(relay[name]["concealedPercent"] - direct[name]["concealedPercent"] for name in BOTH)
        yield "5 % loss: concealed sound ≤ direct + 0.5 points", worst <= 0.5, f"{worst:+.2f} points"
    red = calls.get(("loss-5", "red"))
    if red:
        most = max(red[name]["concealedPercent"] for name in BOTH)
        yield "5 % loss with RED on both legs: concealed < 1 %", most < 1, f"{most} %"


def step(relay, _direct, _calls):
    series = relay["series"]
    if series[-1]["at"] < 30:
        return  # too short to tell
    cut, end = 10, 25  # as in the profile
    held = sent(series, "first", cut + 3, end)
    yield "cut to 400 kbit/s: sender within 20 % of it after 3 s", 320 <= held <= 480, f"{held:.0f} kbit/s"
    lost = sum(grown for at, grown in changes(series, "second", "audioLost") if at > cut)
    got = sum(grown for at, grown in changes(series, "second", "audioPackets") if at > cut)
    yield "cut: sound lost < 1 %", lost < 0.01 * max(1, got + lost), f"{100 * lost / max(1, got + lost):.2f} %"
    freeze = longest_freeze([sample for sample in series if sample["at"] >= cut - 1], "second")
    yield "cut: picture never frozen over 1 s", freeze <= 1, f"longest {freeze * 1000:.0f} ms"
    before = rate(series, "second", "videoBytes", cut - 4, cut)
    back = [at for at, grown in changes(series, "second", "videoBytes") if at > end and grown * 8 / 1000 >= 0.8 * before]
    yield "cut over: back at 80 % within 20 s", bool(back) and back[0] <= end + 20, (
        f"after {back[0] - end:.0f} s" if back else f"not in {series[-1]['at'] - end:.0f} s")


def loss_down(relay, _direct, calls):
    """Loss on the far leg alone: the sender's sound is protected, and its picture does not pay for it."""
    near, series = relay["first"], relay["series"]
    told = near["toldLossPercent"]
    yield "10 % loss far down: the near sender is told of it", told >= 5, f"{told} % of its sound (on its own leg: none)"
    if series[-1]["at"] >= 50:
        # Encoders take half a minute to believe it.
        late = [sample["second"] for sample in series if sample["at"] >= 30]
        grown = {field: late[-1][field] - late[0][field] for field in late[0]}
        seconds = series[-1]["at"] - 30
        share = 100 * (grown["concealed"] - grown["silentConcealed"]) / max(1, grown["samples"])
        lost = 100 * grown["audioLost"] / max(1, grown["audioLost"] + grown["audioPackets"])
        yield "10 % loss far down: its sound has FEC, concealed ≤ half of what is lost", grown["fecPackets"] > 0 and share <= lost / 2, (
            f"{grown['fecPackets'] / seconds:.0f} FEC packets a second, {share:.1f} % concealed of {lost:.1f} % lost")
    before = calls.get(("clean", "relay"))
    if before:
        share = near["encodedKbit"] / max(1, before["first"]["encodedKbit"])
        yield "10 % loss far down: the picture's rate ≥ 90 % of that without loss", share >= 0.9, f"{100 * share:.0f} %"


def move(relay, direct, _calls):
    what = "another address unnoticed" if relay["profile"] == "rebind" else "Wi-Fi to mobile"
    for name, title in (("soundMs", "sound"), ("pictureMs", "picture")):
        longest, without = (max(call["pauses"][one][name] for one in BOTH) if call else None for call in (relay, direct))
        compared = "" if without is None else f" (direct {without})"
        holds = longest <= 1_000 or without is not None and longest <= without + 100
        yield f"{what}: {title} back within 1 s, or no later than directly", holds, f"after {longest} ms{compared}"


TARGETS = {
    "clean": clean, "loss-5": loss_5, "step": step, "loss-down": loss_down, "rebind": move, "wifi-mobile": move}


def group(room):
    """The room of eight, two of them browsers."""
    yield "room of eight, two of them browsers: CPU as forwarding alone predicts, ± 15 %", 0.85 <= room["ratio"] <= 1.15, (
        f"{room['ratio']:.2f} of {room['predicted_ns']:.0f} ns a packet at {room['packets_per_second']:.0f} packets/s")


def judge(results, room=None):
    """(client, target, holds, what was measured) of every target whose profile was run. `room`: the figures of group.py."""
    found = []
    for client in dict.fromkeys(result["client"] for result in results):
        calls = {(result["profile"], result["way"]): result for result in results if result["client"] == client}
        for profile, target in TARGETS.items():
            if (profile, "relay") in calls:
                given = target(calls[profile, "relay"], calls.get((profile, "direct")), calls)
                found += [(client, *verdict) for verdict in given]
    return found + [("chromium", *verdict) for verdict in (group(room) if room else ())]
