#!/usr/bin/env python3
"""Turns the result file of `swift test` into one line for each test target and one for the mode: "N passed, 0 failed".

Usage: summarize-tests.py --mode MODE --exit-code CODE --log LOG RESULTS.xml
RESULTS.xml is what `swift test --xunit-output` writes for Swift Testing when it has come to its end. Fails when a test failed,
when there are no results (the process died), when `swift test` failed for any other reason, or when no test ran at all.
"""
import argparse
import collections
import pathlib
import sys
import xml.etree.ElementTree


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", required=True)
    parser.add_argument("--exit-code", type=int, required=True)
    parser.add_argument("--log", required=True)
    parser.add_argument("results")
    arguments = parser.parse_args()
    passed, failed, failures = collections.Counter(), collections.Counter(), []
    try:
        cases = list(xml.etree.ElementTree.parse(arguments.results).iter("testcase"))
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        print(f"no results ({error}): the process died")
        cases = []
    for case in cases:
        target = case.get("classname", "").split(".")[0]
        if case.find("failure") is not None or case.find("error") is not None:
            failed[target] += 1
            failures.append(f"{case.get('classname')}.{case.get('name')}")
        elif case.find("skipped") is None:
            passed[target] += 1
    for target in sorted(set(passed) | set(failed)):
        print(f"{target} ({arguments.mode}): {passed[target]} passed, {failed[target]} failed")
    good, bad = sum(passed.values()), sum(failed.values())
    if arguments.exit_code != 0 or bad > 0 or good == 0:
        lines = pathlib.Path(arguments.log).read_text(errors="replace").splitlines()
        print("\n".join([line for line in lines if "recorded an issue" in line][:60] + lines[-12:]))
        for name in failures:
            print(f"failed: {name}")
        print(f"swift test ended with code {arguments.exit_code}")
    print(f"unit, {arguments.mode}: {good} passed, {bad} failed")
    sys.exit(0 if arguments.exit_code == 0 and bad == 0 and good > 0 else 1)


if __name__ == "__main__":
    main()
