#!/usr/bin/env python3
"""Writes docs/quality.md and its plots from a run of the lab. As a program: from the figures of the last run, bench/out/lab."""
import importlib.metadata
import json
import pathlib
import platform
import shutil
import subprocess

from profiles import PROFILES
from targets import judge

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The plots that the page shows.
PLOTS = {"loss-5": "5 % random loss each way", "step": "A cut of the downlink", "wifi-mobile": "Wi-Fi to mobile"}
COLUMNS = {
    "framesPerSecond": "frames/s", "freezes": "freezes", "freezeSeconds": "frozen s", "videoKbit": "video kbit/s",
    "concealedPercent": "concealed %", "fecPerSecond": "FEC/s", "roundTripMs": "rtt ms", "nacks": "NACKs", "plis": "PLIs", "encodedKbit": "encodes kbit/s"}
# Why a target is missed, by how it begins; look at these again when the estimator or the repair changes.
WHY = {
    "5 % loss: no freeze": "a repair or the request for it is lost once in ten; the fourth try comes after 235 ms. Direct calls have error correction for video",
    "cut: sound lost": "the queue (300 ms) is full 75 ms after the cut, and drops four of five datagrams until the sender obeys",
    "cut: picture": "the relay asks for a key frame once the sender obeys, and that takes its time through the 400 kbit/s",
}


def why(target):
    return next((f": {reason}" for begin, reason in WHY.items() if target.startswith(begin)), "")


def said(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def about(date, seconds, load):
    """What the figures depend on beside the relay. `load`: how many programs wanted a processor before the run."""
    processors = [
        line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "date": date, "seconds": seconds, "load": round(load, 1), "commit": said("git", "rev-parse", "--short", "HEAD"),
        "machine": f"{len(processors)} × {processors[0] if processors else platform.machine()}, Linux {platform.release()}",
        "wrtc": importlib.metadata.version("wrtc"), "chromium": said("chromium", "--version").split(" built")[0]}


def table(results):
    yield "| profile | client | way | side | " + " | ".join(COLUMNS.values()) + " |"
    yield "|---|---|---|---|" + "---:|" * len(COLUMNS)
    for result in results:
        for name, side in (("first", "near"), ("second", "far")):
            cells = " | ".join(str(result[name][field]) for field in COLUMNS)
            yield f"| {result['profile']} | {result['client']} | {result['way']} | {side} | {cells} |"


def changes(results):
    """Pauses of sound and picture where the client's address changed."""
    for result in results:
        if result["pauses"]:
            near, far = result["pauses"]["first"], result["pauses"]["second"]
            yield (
                f"| {result['profile']} | {result['client']} | {result['way']} | {near['soundMs']} | {near['pictureMs']} | "
                f"{far['soundMs']} | {far['pictureMs']} |")


def text(given, results, room):
    lines = [
        "# Quality", "",
        "How calls are on bad networks, through the relay and with no relay between, measured by the clients' own statistics "
        f"({given['date']}, {given['machine']}, load before the run {given['load']}; relay of commit {given['commit']}; wrtc {given['wrtc']}, {given['chromium']}).", "",
        "```sh", "make lab DOCS=1    # writes this page; make lab without it prints the same", "```", "",
        f"Each call lasts {given['seconds']} s (those that only change an address: 30 s) behind 5 s without impairment. The second client, "
        "*far*, is behind the emulated link, the first one, *near*, on a perfect network; a row says what that side sees and hears of the "
        "other, and last what its own encoder makes. Both send 320×240 at 25 frames a second, up to 2 Mbit/s, and a voice-like sound. "
        "*direct* is the same two clients over the same link without the relay, at the same time (Chromium: after it), *red* the same "
        "through the relay in a room with redundant sound (`red: true`). Direct calls have "
        "error correction for video (ULPFEC) as well, which is counted in their kbit/s and takes half of a narrow link. The link is a "
        "user-space emulator (`Tests/lab/link.py`), seeded; clients, link and relay share the machine's processors.", "",
        "## Targets", "", "| target | client | measured | |", "|---|---|---|---|"]
    for client, target, holds, measured in judge(results, room):
        lines.append(f"| {target} | {client} | {measured} | {'holds' if holds else '**missed**' + why(target)} |")
    lines += ["", "## Profiles", "", "| profile | the link |", "|---|---|"]
    lines += [f"| {name} | {PROFILES[name].what} |" for name in dict.fromkeys(result["profile"] for result in results)]
    lines += ["", "## Figures", "", *table(results), ""]
    moved = list(changes(results))
    if moved:
        lines += [
            "## Another address in mid-call", "",
            "The longest time without a new packet of sound and without a new picture, ms. `rebind`: the client does not notice; "
            "`wifi-mobile`: its app restarts ICE 0.1 s after the Wi-Fi is gone, and signaling takes another 0.2 s. Chromium itself takes "
            "2 s more until it sends anything from its new address; the relay sends there 0.18 s later (two round trips).", "",
            "| profile | client | way | near, sound | near, picture | far, sound | far, picture |", "|---|---|---|---:|---:|---:|---:|", *moved, ""]
    if room:
        lines += [
            "## A room of eight", "",
            "Six clients of the load program (200 packets a second each) and two Chromiums, all of whom hear and see each other over slots "
            "(`Tests/lab/group.py`, `RelayLoad guests`). What forwarding alone predicts: what the limit process uses for a packet to "
            "seven receivers, times what the relay uses beside it in calls of two at the same rate.", "",
            "| | |", "|---|---:|",
            f"| worker's CPU a packet that anybody got | {room['ns']:.0f} ns |", f"| the same with eight of the load's clients | {room['fleet_ns']:.0f} ns |",
            f"| limit, eight of the load's clients | {room['limit_ns']:.0f} ns |", f"| relay to limit in calls of two | {room['calls_ratio']:.2f} |",
            f"| predicted | {room['predicted_ns']:.0f} ns |", f"| packets a second | {room['packets_per_second']:.0f} |",
            f"| of each browser's own, a second | {room['guest_packets_per_second']:.0f} |",
            f"| pictures decoded, least of the browsers' 14 slots | {room['leastFrames']} |", f"| lost on the way to the browsers | {room['lostPercent']} % |", ""]
    return lines


def write(docs, given, results, room, plots):
    lines = text(given, results, room)
    lines += ["## Over time", ""]
    for name, title in PLOTS.items():
        if (plots / f"{name}.svg").exists():
            shutil.copyfile(plots / f"{name}.svg", docs / "images" / f"quality-{name}.svg")
            lines += [f"{title}:", "", f"![{title}](images/quality-{name}.svg)", ""]
    (docs / "quality.md").write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    folder = ROOT / "bench/out/lab"
    found = json.loads((folder / "lab.json").read_text())
    write(ROOT / "docs", found["about"], found["results"], found.get("group"), folder)
