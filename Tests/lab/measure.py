#!/usr/bin/env python3
"""One measured call: its clients, its link, the relay or none, and what the clients' statistics say once a second.

`start` runs it in network and process namespaces of its own, so that calls disturb each other by nothing but the processor, and
what a call leaves behind ends with it.
"""
import asyncio
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]

from profiles import PROFILES  # noqa: E402
from relay import Relay  # noqa: E402
from run import isolation  # noqa: E402

SETTLE = 5  # seconds before the profile begins, in which the clients' own estimators rise
# Around a change of the client's address the pauses are measured finer than once a second.
CHANGE = (9, 20)


def changes_address(profile):
    return bool(profile.others) or any("rebind" in step for step in profile.steps)


async def observe(call, link, profile, seconds, networks):
    """Samples of both clients, once a second, from the moment the profile begins; and the pauses at a change of address."""
    await call.start()
    await asyncio.sleep(SETTLE)
    link.begin()
    started, series, pauses = time.monotonic(), [], None
    moving = asyncio.create_task(networks.move(call)) if networks else None
    clients = {"first": call.first, "second": call.second}
    for second in range(seconds + 1):
        await asyncio.sleep(max(0, started + second - time.monotonic()))
        samples = await asyncio.gather(*(client.sample() for client in clients.values()))
        series.append({"at": time.monotonic() - started, **dict(zip(clients, samples))})
        if changes_address(profile) and second == CHANGE[0]:
            await asyncio.gather(*(client.watch() for client in clients.values()))
        if changes_address(profile) and second == min(CHANGE[1], seconds):
            pauses = {name: await client.paused() for name, client in clients.items()}
    if moving:
        await moving
    await call.stop()
    return series, pauses


async def run_call(profile, seconds, relay, kind, red=False):
    from calls import DirectCall, RelayCall
    from link import Link

    networks, addresses = None, ("127.0.0.1", "127.0.0.1")
    if profile.others:
        from networks import SERVER, TwoNetworks

        networks, addresses = TwoNetworks(), (SERVER, "127.0.0.1")
    (first, second), windows = await clients(kind, networks)
    host, port = relay.media.rsplit(":", 1) if relay else (None, 0)
    link = Link(profile, (host, int(port)) if relay else None, addresses)
    call = RelayCall(relay, link, first, second, red) if relay else DirectCall(link, first, second)
    try:
        series, pauses = await observe(call, link, profile, seconds, networks)
    finally:
        counters = link.end()
        for one in [*windows, *filter(None, [networks])]:
            one.stop()
    return {"link": counters, "series": series, "pauses": pauses, **summary(series)}


async def clients(kind, networks):
    """Both clients, and the browsers that they are in. With `networks` the second one lives there."""
    if kind == "chromium":
        from chromium import Window
        from networks import within

        windows = [Window(["first", "second"])] if not networks else [
            Window(["first"]), within(networks.inside, lambda: Window(["second"]))]
        return [peer for window in windows for peer in window.peers], windows
    from peer import RemotePeer

    prefix = ("nsenter", "--target", str(networks.inside), "--net") if networks else ()
    return [await RemotePeer().start(), await RemotePeer(prefix).start()], []


def media(counters):
    """Bytes of video without repeats and without the error correction that two clients without a relay agree on."""
    return counters["videoBytes"] - counters["repeatedBytes"] - counters["videoFecBytes"]


def summary(series):
    """For each client: what it saw of the other in the whole time."""
    found = {}
    for name in ("first", "second"):
        begin, end = series[0][name], series[-1][name]
        span = series[-1]["at"] - series[0]["at"]
        grown = {field: end[field] - begin[field] for field in end}
        rates = [(media(b[name]) - media(a[name])) * 8 / 1000 / (b["at"] - a["at"]) for a, b in zip(series, series[1:])]
        samples = max(1, grown["samples"])
        found[name] = {
            "framesPerSecond": round(grown["frames"] / span, 1), "freezes": grown["freezes"],
            "freezeSeconds": round(grown["freezeSeconds"], 2), "videoKbit": round(media(grown) * 8 / 1000 / span),
            "leastKbit": round(min(rates)), "concealedPercent": round(100 * (grown["concealed"] - grown["silentConcealed"]) / samples, 2),
            "audioLossPercent": round(100 * grown["audioLost"] / max(1, grown["audioPackets"] + grown["audioLost"]), 2),
            "fecPerSecond": round(grown["fecPackets"] / span, 1), "roundTripMs": round(end["roundTrip"] * 1000),
            "nacks": grown["nacks"], "plis": grown["plis"], "keyFrames": grown["keyFrames"],
            "sentKbit": round(grown["sentVideoBytes"] * 8 / 1000 / span), "sentFramesPerSecond": round(grown["sentFrames"] / span, 1),
            "encodedKbit": round(sum(sample[name]["targetRate"] for sample in series) / len(series) / 1000),
            "soundBytesPerPacket": round(grown["sentAudioBytes"] / max(1, grown["sentAudioPackets"]), 1),
            "heardBytesPerPacket": round(grown["audioBytes"] / max(1, grown["audioPackets"]), 1),
            "toldLossPercent": round(100 * sum(sample[name]["toldLoss"] for sample in series[5:]) / max(1, len(series[5:])), 2),
        }
    return found


def inside(name, way, kind, seconds):
    """In its namespaces: makes the call and writes the result as the last line."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    profile = PROFILES[name]
    if way == "direct":
        found = asyncio.run(run_call(profile, seconds, None, kind))
    else:
        with Relay() as relay:
            found = asyncio.run(run_call(profile, seconds, relay, kind, way == "red"))
    print("\nresult: " + json.dumps({"profile": name, "way": way, "client": kind, "seconds": seconds, **found}), flush=True)
    # Clients leave threads behind; they are no business of the result.
    os._exit(0)


class Running:
    """A call under way; `result` waits for it."""

    def __init__(self, name, way, kind, seconds):
        self.what = f"{name} {way} {kind}"
        self.until = time.monotonic() + seconds + 60
        self.process = subprocess.Popen(
            [*isolation(), sys.executable, __file__, name, way, kind, str(seconds)], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def result(self):
        try:
            text = self.process.communicate(timeout=max(1, self.until - time.monotonic()))[0]
        except subprocess.TimeoutExpired:
            self.process.kill()
            text = self.process.communicate()[0]
        for line in reversed(text.splitlines()):
            if line.startswith("result: "):
                return json.loads(line[8:])
        raise AssertionError(f"{self.what} gave no result: {text[-3000:]}")


if __name__ == "__main__":
    inside(*sys.argv[1:4], int(sys.argv[4]))
