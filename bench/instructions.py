#!/usr/bin/env python3
"""Instructions that the relay needs to forward a packet, beside the limit's: by callgrind, so the same on any day.

Counts what one step of RelayBench (receive a batch, forward, send) does in user space, cipher included, and divides
by its packets. Two runs of different length: the difference has no setting up in it. The kernel's part is not
counted. Ends with one line "instructions: N passed, M failed"; without valgrind it says so and skips."""
import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Bytes, batch, participants, burst, the limit that it is compared with, and the ratio that fails: a little above what is
# reached. The target is 1.3 everywhere; docs/performance.md says what stands in its way.
ROWS = [
    (120, 64, 20, 1, "L1", 2.25), (120, 64, 20, 4, "L1g", 2.2), (1150, 64, 20, 1, "L1", 1.5), (1150, 64, 20, 4, "L1g", 1.5),
]
TARGET = 1.3
SHORT, LONG = 20, 60
ROUNDS = LONG - SHORT


def total(bench: str, row: tuple, contender: str, rounds: int) -> int:
    """Instructions inside of all steps of one run."""
    shape = "/".join(str(number) for number in row[:4])
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind.out"
        command = [
            "valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--collect-atstart=no",
            "--toggle-collect=*timedStep*", bench, "--row", shape, "--only", contender, "--rounds", str(rounds), "--json",
        ]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        text = out.read_text() if out.exists() else ""
        found = re.search(r"^(?:totals|summary): (\d+)", text, re.M)
        if run.returncode != 0 or not found or int(found[1]) == 0:
            sys.exit(f"instructions: callgrind gave nothing for {contender} {shape}\n{run.stderr[-2000:]}")
        return int(found[1])


def per_packet(bench: str, row: tuple, contender: str) -> float:
    difference = total(bench, row, contender, LONG) - total(bench, row, contender, SHORT)
    return difference / (ROUNDS * row[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench", default=".build/release/RelayBench", help="the built RelayBench")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("instructions: skipped, valgrind is not installed (scripts/install-packages.sh bench)")
        return 0
    failed = 0
    with ThreadPoolExecutor(2) as pool, tempfile.TemporaryDirectory() as folder:
        # Valgrind stumbles over this toolchain's debug information, and needs the symbols only.
        bare = str(Path(folder) / "RelayBench")
        subprocess.run(["objcopy", "--strip-debug", options.bench, bare], check=True)
        pairs = [
            (row, pool.submit(per_packet, bare, row, "relay"), pool.submit(per_packet, bare, row, row[4]))
            for row in ROWS
        ]
        for row, relay, limit in pairs:
            relay, limit = relay.result(), limit.result()
            ratio = relay / limit
            failed += ratio > row[5]
            if options.json:
                context = {"packet_bytes": row[0], "batch": row[1], "participants": row[2], "burst": row[3], "limit": row[4]}
                print(json.dumps({"metric": "instructions_ratio", "value": round(ratio, 3), "unit": "ratio",
                                  "context": context | {"relay": round(relay), "limit_instructions": round(limit)}}))
            else:
                verdict = f"  over {row[5]}" if ratio > row[5] else f"  (target {TARGET})" if ratio > TARGET else ""
                print(f"{row[0]:5} B, burst {row[3]}: relay {relay:6.0f}, {row[4]:3} {limit:6.0f}, ratio {ratio:.2f}{verdict}")
    if not options.json:
        print(f"instructions: {len(ROWS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
