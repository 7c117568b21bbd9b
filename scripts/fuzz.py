#!/usr/bin/env python3
"""Builds the fuzzers of Tests/fuzz and runs each for a while: crash inputs that are kept first, then libFuzzer.

Usage: fuzz.py [--minutes N | --seconds N] [--targets a,b] [--asan] [--jobs N]

Ends with a table and one line, "fuzz: N targets, M executions, 0 failures". Fails when an input breaks a promise, takes more
than 10 s, or more memory than is allowed; and when a target ran nothing. What it found lies in .build/fuzz/found, what it
learnt in .build/fuzz/corpus, from where the next run goes on.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / ".build" / "fuzz"
# What a target may use. The sanitizer keeps freed memory and red zones.
MEMORY_MB, SANITIZED_MEMORY_MB = 256, 1536
TIMEOUT = 10
SYSTEM_LIBRARIES = ["ssl", "crypto", "srtp2", "opus", "sqlite3", "curl", "dl", "m"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=1, help="for each target")
    parser.add_argument("--seconds", type=float, help="the same in seconds")
    parser.add_argument("--targets", default="", help="names, by commas or spaces; default: all")
    parser.add_argument("--asan", action="store_true", help="with AddressSanitizer")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at once")
    arguments = parser.parse_args()
    if arguments.seconds is None:
        arguments.seconds = arguments.minutes * 60
    program = build(arguments.asan)
    known = dict(line.split() for line in run_list(program).splitlines())
    names = re.split(r"[,\s]+", arguments.targets.strip()) if arguments.targets.strip() else list(known)
    for name in names:
        if name not in known:
            sys.exit(f"fuzz: there is no target {name}; there are {' '.join(known)}")
    targets = [Target(name, int(known[name]), program, arguments) for name in names]
    run_all(targets, arguments.jobs)
    return summarise(targets, arguments.asan)


# Building


def build(asan):
    """SwiftPM compiles the modules with coverage, and what it made is linked with libFuzzer's main."""
    started = time.monotonic()
    scratch = WORK / ("asan" if asan else "plain")
    sanitizers = "fuzzer,address" if asan else "fuzzer"
    clang = "fuzzer-no-link,address" if asan else "fuzzer-no-link"
    swift = os.environ.get("SWIFT", "swift")
    scratch.mkdir(parents=True, exist_ok=True)
    log = scratch / "build.log"
    print(f"== fuzz: building{' with AddressSanitizer' if asan else ''} (log: {log.relative_to(ROOT)})", flush=True)
    command = [swift, "build", "-c", "release", "--target", "RelayFuzz", "--scratch-path", str(scratch)]
    # Tests look inside modules, and what is asserted is to hold here.
    for flag in [f"-sanitize={sanitizers}", "-enable-testing", "-assert-config", "Debug"]:
        command += ["-Xswiftc", flag]
    command += ["-Xcc", f"-fsanitize={clang}"]
    logged(command, log, "w")
    objects = sorted(str(path) for path in (scratch / "release").resolve().rglob("*.o"))
    program = scratch / "RelayFuzz"
    compiler = pathlib.Path(shutil.which(swift) or swift).with_name("swiftc")
    link = [str(compiler), f"-sanitize={sanitizers}", "-o", str(program)]
    link += ["-use-ld=lld"] + objects + [f"-l{name}" for name in SYSTEM_LIBRARIES]
    logged(link, log, "a")
    print(f"== fuzz: built after {time.monotonic() - started:.0f} s", flush=True)
    return program


def logged(command, log, mode):
    with open(log, mode) as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | {"RELAY_FUZZ": "1"}, stdout=output, stderr=subprocess.STDOUT)
        began = told = time.monotonic()
        while process.poll() is None:
            time.sleep(0.2)
            if time.monotonic() - told > 60:
                told = time.monotonic()
                print(f"   … still building, {told - began:.0f} s", flush=True)
    if process.returncode != 0:
        print("\n".join(log.read_text(errors="replace").splitlines()[-60:]))
        sys.exit("fuzz: the build failed")


def run_list(program):
    environment = os.environ | {"FUZZ_LIST": "1"}
    return subprocess.run([program], env=environment, check=True, capture_output=True, text=True).stdout


# Running


class Target:
    """One target's run: the kept crash inputs, then the fuzzer over corpus and seeds."""

    def __init__(self, name, byte_limit, program, arguments):
        self.name, self.byte_limit, self.program = name, byte_limit, program
        self.seconds, self.asan = arguments.seconds, arguments.asan
        self.limit = SANITIZED_MEMORY_MB if self.asan else MEMORY_MB
        self.log = WORK / "logs" / f"{name}.log"
        self.found = WORK / "found" / name
        self.corpus = WORK / "corpus" / name
        self.process, self.output, self.failure = None, None, ""
        self.executions = self.rate = self.edges = self.inputs = self.memory = 0

    def environment(self, **extra):
        # Swift's own backtraces of a sanitized process take minutes.
        return os.environ | {
            "FUZZ_TARGET": self.name, "SWIFT_BACKTRACE": "enable=no",
            "ASAN_OPTIONS": "quarantine_size_mb=16:detect_leaks=0:allocator_may_return_null=1"} | extra

    def start(self):
        for folder in [self.log.parent, self.found, self.corpus]:
            folder.mkdir(parents=True, exist_ok=True)
        seeds = WORK / "seeds" / self.name
        shutil.rmtree(seeds, ignore_errors=True)
        common = [
            f"-timeout={TIMEOUT}", f"-rss_limit_mb={self.limit}", f"-artifact_prefix={self.found}/",
            f"-max_len={self.byte_limit}"]
        kept = sorted(str(path) for path in (ROOT / "Tests/fuzz/crashes" / self.name).glob("*"))
        with open(self.log, "w") as log:
            written = subprocess.run(
                [self.program], env=self.environment(FUZZ_SEEDS=str(seeds)), stdout=log, stderr=log)
            if written.returncode != 0:
                self.failure = "its seeds were not written"
                return
            if kept and subprocess.run(
                    [self.program] + common + kept, env=self.environment(), stdout=log, stderr=log).returncode != 0:
                self.failure = "a crash input that was mended breaks it again"
                return
        self.output = open(self.log, "a")
        self.process = subprocess.Popen(
            [self.program] + common + [
                f"-max_total_time={max(1, round(self.seconds))}", "-print_final_stats=1", str(self.corpus), str(seeds)],
            env=self.environment(), stdout=self.output, stderr=self.output)

    def has_ended(self):
        if self.process is None:
            return True
        if self.process.poll() is None:
            return False
        self.output.close()
        self.read()
        if self.process.returncode != 0:
            self.failure = self.reason()
        elif self.executions == 0:
            self.failure = "ran nothing"
        elif self.memory > self.limit:
            self.failure = f"used {self.memory} MiB"
        self.process = None
        return True

    def read(self):
        text = self.log.read_text(errors="replace")

        def last(pattern):
            found = re.findall(pattern, text)
            return int(found[-1]) if found else 0

        self.executions = last(r"stat::number_of_executed_units: +(\d+)") or last(r"(?m)^#(\d+)\s")
        self.rate = last(r"stat::average_exec_per_sec: +(\d+)") or last(r"exec/s: (\d+)")
        self.memory = last(r"stat::peak_rss_mb: +(\d+)") or last(r"rss: (\d+)Mb")
        self.edges, self.inputs = last(r" cov: (\d+)"), last(r" corp: (\d+)")

    def reason(self):
        text = self.log.read_text(errors="replace")
        for pattern in [r"broken promise: .*", r"Fatal error: .*", r"ERROR: (?:AddressSanitizer|libFuzzer): .*"]:
            found = re.findall(pattern, text)
            if found:
                return found[-1][:150]
        return f"ended with {self.process.returncode}"


def run_all(targets, jobs):
    waiting, running = list(targets), []
    told = time.monotonic()
    while waiting or running:
        while waiting and len(running) < jobs:
            target = waiting.pop(0)
            target.start()
            running.append(target)
        time.sleep(0.2)
        for target in [target for target in running if target.has_ended()]:
            running.remove(target)
            print(f"   {target.name}: {target.failure or 'ok'}, {target.executions:,} executions", flush=True)
        if time.monotonic() - told > 60:
            told = time.monotonic()
            for target in running:
                target.read()
                print(f"   … {target.name}: {target.executions:,} executions, {target.edges} edges", flush=True)


def summarise(targets, asan):
    form = "{:<14} {:>13} {:>9} {:>7} {:>7} {:>7} {:>9}  {}"
    print()
    print(form.format("target", "executions", "a second", "edges", "corpus", "crashes", "peak MiB", "verdict"))
    for target in targets:
        crashes = len([path for path in target.found.glob("*") if path.name.startswith(("crash", "timeout", "oom"))])
        print(form.format(
            target.name, f"{target.executions:,}", f"{target.rate:,}", target.edges, target.inputs, crashes,
            target.memory, target.failure or "ok"))
    failed = [target for target in targets if target.failure]
    for target in failed:
        print(f"\n{target.name}: {target.failure}\n   input: {target.found.relative_to(ROOT)}, log: {target.log.relative_to(ROOT)}")
    total = sum(target.executions for target in targets)
    with_asan = " with AddressSanitizer" if asan else ""
    print(f"\nfuzz{with_asan}: {len(targets)} targets, {total:,} executions, {len(failed)} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
