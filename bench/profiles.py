#!/usr/bin/env python3
"""Where the time goes, beside the limit: `bench.py --only profile`. One JSON object a line, metric "profile".

Two views. By sampling (perf, where installed and permitted): worker and limit under the same load of calls with video, each part in
nanoseconds of a forwarded packet. By counting (callgrind): instructions of one forwarding step by function, and of a DTLS handshake
by library and function. What cannot be had is said on standard error and left out."""

import argparse
import collections
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BINARIES = pathlib.Path(__file__).resolve().parent.parent / ".build" / "release"
RATE = 20000
# Under which name a sample's time stands: the first pattern that one of its frames has, the innermost frame first.
PARTS = [
    ("kernel: sending", r"sendmmsg"),
    ("kernel: receiving", r"recvmmsg"),
    ("kernel: waiting and waking", r"epoll|nanosleep|schedule|do_idle|futex|eventfd"),
    ("cipher", r"gcm|aes_|ghash|sealRTP|openRTP|sealRTCP|openRTCP|SRTPCipher"),
    ("feedback that comes (estimates of paths)", r"receiveRTCP|BandwidthEstimator|TransportFeedback\w*(?:init|next)|receiveTransportFeedback"),
    ("feedback and reports that go, timers", r"7service|sendReports|sendTransportFeedback|appendFeedback|TimerWheel|finishBatch|advance"),
    ("handshakes and control", r"Handshaker|SSL_|ossl|LinkClient|WorkerNews"),
    ("packet: in, out, history", r"MediaEngine|receiveRTP|deliver|forward|limit_step|forward_packet|PacketHistory"),
    ("batches and chains", r"DatagramReader|DatagramWriter|SendChains|lio_|MediaLoop"),
]


def say(text):
    print(text, file=sys.stderr, flush=True)


def figure(view, of, part, value, unit, **context):
    print(json.dumps({"metric": "profile", "value": round(value, 2), "unit": unit, "context": {"view": view, "of": of, "part": part, **context}}), flush=True)


def part_of(frames):
    for frame in frames:
        for name, pattern in PARTS:
            if re.search(pattern, frame):
                return name
    return "kernel: the rest" if frames and frames[-1].startswith(("entry_", "do_syscall", "asm_")) else "the rest"


def samples(text):
    """Program and frames, innermost first, of each sample that `perf script -F comm,ip,sym` shows."""
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line.strip()]
        if len(lines) > 1:
            yield lines[0].strip(), [line.split(None, 1)[1] if len(line.split(None, 1)) > 1 else "" for line in lines[1:]]


def sampled():
    if shutil.which("perf") is None:
        return say("profile: perf is not installed (Debian: linux-perf); no samples")
    with tempfile.TemporaryDirectory() as folder:
        data = str(pathlib.Path(folder) / "perf.data")
        perf = subprocess.Popen(["perf", "record", "-q", "-F", "1999", "-g", "-C", "0", "-o", data], stderr=subprocess.PIPE, text=True)
        cost = subprocess.run([str(BINARIES / "RelayLoad"), "cost", "--json", "--rate", str(RATE), "--count", "5"], stdout=subprocess.PIPE, text=True, check=False)
        perf.terminate()
        errors = perf.communicate()[1]
        script = subprocess.run(["perf", "script", "-i", data, "-F", "comm,ip,sym"], capture_output=True, text=True, check=False)
    if cost.returncode != 0 or script.returncode != 0:
        return say(f"profile: no samples: {errors or script.stderr}"[:500])
    figures = [json.loads(line) for line in cost.stdout.splitlines() if line.startswith("{")]
    counts = {"relay": collections.Counter(), "limit": collections.Counter()}
    for program, frames in samples(script.stdout):
        who = {"media-0": "relay", "RelayLimit": "limit"}.get(program)
        if who:
            counts[who][part_of(frames)] += 1
    for who, parts in counts.items():
        ns = [line["value"] for line in figures if line["metric"] == "cpu_ns_per_fwd" and line["context"]["forwarder"] == who]
        total = sum(parts.values())
        if not ns or total < 500:
            say(f"profile: {total} samples of the {who} are too few")
            continue
        # Both kinds of calls are in the samples, and as many windows of each.
        mean = sum(ns) / len(ns)
        for part, count in parts.most_common():
            figure("samples", who, part, mean * count / total, "ns", packets_per_second=RATE, samples=total)


def callgrind(arguments, toggle):
    """Self instructions by (object, function) inside of functions that match `toggle`."""
    with tempfile.TemporaryDirectory() as folder:
        bare, out = str(pathlib.Path(folder) / "RelayBench"), str(pathlib.Path(folder) / "out")
        # Valgrind stumbles over this toolchain's debug information, and needs the symbols only.
        subprocess.run(["objcopy", "--strip-debug", str(BINARIES / "RelayBench"), bare], check=True)
        subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--collect-atstart=no", f"--toggle-collect=*{toggle}*", bare, *arguments],
            capture_output=True, text=True, check=True)
        text = subprocess.run(["callgrind_annotate", "--threshold=99", "--show-percs=no", out], capture_output=True, text=True, check=True).stdout
    found = collections.Counter()
    for line in text.splitlines():
        match = re.match(r"^\s*([\d,]+)\s+\S*?:(.+?)(?: \[(.*)\])?$", line)
        if match:
            found[(pathlib.Path(match[3] or "").name, match[2].strip())] += int(match[1].replace(",", ""))
    return found


def demangled(name):
    text = subprocess.run(["swift", "demangle", "--compact", "--simplified", name], capture_output=True, text=True, check=False).stdout.strip() if name.startswith("$s") else name
    return re.sub(r"specialized |generic specialization <.*?> of |partial apply for ", "", text)[:110]


def counted():
    if shutil.which("valgrind") is None:
        return say("profile: valgrind is not installed (scripts/install-packages.sh bench); no instruction counts")
    for row, limit in (("120/64/20/1", "L1"), ("1150/64/20/4", "L1g")):
        packets = 64 * 80
        for who in ("relay", limit):
            # Rounds of warming up and timed ones alike.
            found = callgrind(["--row", row, "--only", who, "--rounds", "30", "--json"], "timedStep")
            total = sum(found.values())
            say(f"profile: {row} {who}: {total / packets:.0f} instructions a packet")
            for (_, name), count in found.most_common(14):
                figure("instructions", who, demangled(name), count / packets, "instructions", row=row)
    handshakes = 20
    found = callgrind(["--handshakes", str(handshakes), "--json"], "timedHandshake")
    libraries = collections.Counter()
    for (library, _), count in found.items():
        libraries[library] += count
    for library, count in libraries.most_common(5):
        figure("handshake", "library", library or "unknown", count / handshakes / 1000, "thousand instructions")
    for (library, name), count in found.most_common(20):
        figure("handshake", library, demangled(name), count / handshakes / 1000, "thousand instructions")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="as always")
    parser.add_argument("--only", choices=["samples", "instructions"])
    options = parser.parse_args()
    if options.only != "instructions":
        sampled()
    if options.only != "samples":
        counted()


if __name__ == "__main__":
    main()
