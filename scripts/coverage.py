#!/usr/bin/env python3
"""How much of RTPCore and RelayCore the Swift tests run: a table by file, then one line with both percentages.

Usage: coverage.py [--least PERCENT]

Builds the tests with coverage in a folder of its own. Fails when a test fails, and when one of the two modules is below
PERCENT.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRATCH = ROOT / ".build" / "coverage"
MODULES = ["RTPCore", "RelayCore"]
# Tests of the pure parts; the others need sockets and processes and add nothing to these modules.
SUITES = "RTPCoreTests|RelayCoreTests|RelayScenarioTests|SimulationTests"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--least", type=float, default=0)
    arguments = parser.parse_args()
    swift = os.environ.get("SWIFT", "swift")
    options = ["--scratch-path", str(SCRATCH), "--enable-code-coverage"]
    print("== coverage: building", flush=True)
    run([swift, "build", "--build-tests"] + options)
    print("== coverage: running the tests", flush=True)
    run([swift, "test", "--skip-build", "--filter", SUITES] + options)
    bins = pathlib.Path(shutil.which(swift)).resolve().parent
    binary = next((SCRATCH / "debug").glob("*PackageTests.xctest"))
    profile = SCRATCH / "debug" / "codecov" / "default.profdata"
    report = json.loads(subprocess.run(
        [bins / "llvm-cov", "export", "-summary-only", "-instr-profile", profile, binary], check=True,
        capture_output=True, text=True).stdout)
    files = report["data"][0]["files"]
    totals = {module: show(module, files) for module in MODULES}
    print("\ncoverage: " + ", ".join(f"{module} {percent:.1f} % of lines" for module, percent in totals.items()))
    return 0 if min(totals.values()) >= arguments.least else 1


def run(command):
    log = SCRATCH / "coverage.log"
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with open(log, "w") as output:
        if subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT).returncode == 0:
            return
    print("\n".join(log.read_text(errors="replace").splitlines()[-40:]))
    sys.exit(f"coverage: {command[1]} failed")


def show(module, files):
    """The module's files, the least covered first. Returns the percentage of its lines."""
    folder = ROOT / "Sources" / module
    rows = []
    for file in files:
        path = pathlib.Path(file["filename"])
        if folder in path.parents:
            lines = file["summary"]["lines"]
            rows.append((lines["percent"], lines["count"] - lines["covered"], lines["count"], path.relative_to(folder)))
    print(f"\n{module}\n{'lines':>7} {'missed':>7} {'covered':>8}  file")
    for percent, missed, count, path in sorted(rows):
        print(f"{count:>7} {missed:>7} {percent:>7.1f}%  {path}")
    count = sum(row[2] for row in rows)
    return 100 * (count - sum(row[1] for row in rows)) / count


if __name__ == "__main__":
    sys.exit(main())
