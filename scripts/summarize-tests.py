#!/usr/bin/env python3
"""Turns the output of `swift test` into one line for each test target and one for the mode: "N passed, 0 failed".

Usage: summarize-tests.py --mode MODE --exit-code CODE LOG
Fails when a test failed, when `swift test` failed for any other reason, or when no test ran at all.
"""
import argparse
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Swift Testing: `✔ Test "name" passed after 0.001 seconds.`, `✘ Test name() failed after …`, `… with 3 test cases passed …`.
RESULT = re.compile(r"^\S+ Test (?P<name>.+?)(?: with \d+ test cases?)? (?P<verdict>passed|failed) after ")
TOTAL = re.compile(r"Test run with (\d+) tests?.* (passed|failed) after")
XCTEST = re.compile(r"Executed (\d+) tests?, with (?:\d+ tests? skipped and )?(\d+) failures?")


def targets_by_name():
    """Which target a test's name belongs to, from the sources: Swift Testing prints names only."""
    found = {}
    for path in (ROOT / "Tests").glob("*Tests/**/*.swift"):
        target = path.relative_to(ROOT / "Tests").parts[0]
        text = path.read_text()
        for name in re.findall(r'@Test\(\s*"((?:[^"\\]|\\.)*)"', text):
            found[f'"{name}"'] = target
        for name in re.findall(r"func\s+(`[^`]+`|\w+)\s*\(", text):
            found.setdefault(name.strip("`"), target)
    return found


def target_of(name, known):
    return known.get(name) or known.get(name.split("(")[0].strip("`")) or "other"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", required=True)
    parser.add_argument("--exit-code", type=int, required=True)
    parser.add_argument("log")
    arguments = parser.parse_args()
    text = pathlib.Path(arguments.log).read_text(errors="replace")
    known = targets_by_name()
    passed, failed = collections.Counter(), collections.Counter()
    failures = []
    for line in text.splitlines():
        match = RESULT.match(line)
        if not match or match["name"].startswith("run with"):
            continue
        target = target_of(match["name"], known)
        if match["verdict"] == "passed":
            passed[target] += 1
        else:
            failed[target] += 1
            failures.append(match["name"])
    old = [(int(count), int(bad)) for count, bad in XCTEST.findall(text)]
    if old and max(old)[0] > 0:
        count, bad = max(old)
        passed["XCTest"] += count - bad
        failed["XCTest"] += bad
    for target in sorted(set(passed) | set(failed)):
        print(f"{target} ({arguments.mode}): {passed[target]} passed, {failed[target]} failed")
    good, bad = sum(passed.values()), sum(failed.values())
    told = sum(int(count) for count, _ in TOTAL.findall(text))
    if arguments.exit_code != 0 or bad > 0:
        lines = text.splitlines()
        print("\n".join([line for line in lines if "recorded an issue" in line][:60] + lines[-12:]))
        for name in failures:
            print(f"failed: {name}")
        print(f"swift test ended with code {arguments.exit_code}")
    if good + bad == 0:
        print("no test ran")
    if told > good + bad:
        print(f"{told} tests were announced, {good + bad} gave a result: the process died")
    print(f"unit, {arguments.mode}: {good} passed, {bad} failed")
    sys.exit(0 if arguments.exit_code == 0 and bad == 0 and good > 0 and told <= good + bad else 1)


if __name__ == "__main__":
    main()
