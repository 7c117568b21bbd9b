#!/usr/bin/env python3
"""Changes every comparison that RTPCore's parsers bound their reading with, one at a time, and asks RTPCore's tests whether they notice.

Usage: mutate.py [--only FOLDER/FILE] [--jobs N] [--list]

All mutants are in one build: in a copy of the sources each comparison calls a function that knows its mutants by number, and the
environment says which one lives. Ends with the survivors and one line, "mutate: N mutants, N noticed, N equivalent, 0 survived". Those
that change nothing anybody can see stand with their reason in Tests/Fixtures/equivalent-mutants.txt; a line there whose mutant is
noticed, or no longer there, fails too.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / ".build/mutants"
CORE = "Sources/RTPCore"
EQUIVALENT = ROOT / "Tests/Fixtures/equivalent-mutants.txt"
PARSERS = ("Codecs", "Network", "RTCP", "RTP", "SDP", "STUN")
# What a length or a place is called: only then is an equality a bound.
LENGTH = re.compile(r"[cC]ount\b|[oO]ffset|\bend\b|[sS]ize|[lL]ength|[lL]imit|\bat\b|\bstart\b|remaining|\bleft\b|\.isEmpty")

# Operator: function, and what its mutants do.
ORDER = {
    "<": ("mutatedLess", ("<=", "< by one more")),
    "<=": ("mutatedLessOrEqual", ("<", "<= by one more")),
    ">": ("mutatedGreater", (">=", "> by one more")),
    ">=": ("mutatedGreaterOrEqual", (">", ">= by one less")),
    "==": ("mutatedEqual", ("!=",)),
    "!=": ("mutatedUnequal", ("==",)),
}

FUNCTIONS = '''import Glibc

// In this copy only: comparisons that the environment makes wrong, one at a time.

public enum Mutant {
    public static let active: Int = getenv("MUTANT").flatMap { Int(String(cString: $0)) } ?? -1
}

public func mutatedLess<T: FixedWidthInteger>(_ n: Int, _ a: T, _ b: T) -> Bool {
    if Mutant.active == n { return a <= b }
    if Mutant.active == n + 1 { return a < b && a &+ 1 != b }
    return a < b
}
public func mutatedLessOrEqual<T: FixedWidthInteger>(_ n: Int, _ a: T, _ b: T) -> Bool {
    if Mutant.active == n { return a < b }
    if Mutant.active == n + 1 { return a <= b || a &- 1 == b }
    return a <= b
}
public func mutatedGreater<T: FixedWidthInteger>(_ n: Int, _ a: T, _ b: T) -> Bool {
    if Mutant.active == n { return a >= b }
    if Mutant.active == n + 1 { return a > b && a &- 1 != b }
    return a > b
}
public func mutatedGreaterOrEqual<T: FixedWidthInteger>(_ n: Int, _ a: T, _ b: T) -> Bool {
    if Mutant.active == n { return a > b }
    if Mutant.active == n + 1 { return a >= b || a &+ 1 == b }
    return a >= b
}
// Of two kinds of integers.
@_disfavoredOverload public func mutatedLess(_ n: Int, _ a: some BinaryInteger, _ b: some BinaryInteger) -> Bool {
    mutatedLess(n, Int(a), Int(b))
}
@_disfavoredOverload public func mutatedLessOrEqual(_ n: Int, _ a: some BinaryInteger, _ b: some BinaryInteger) -> Bool {
    mutatedLessOrEqual(n, Int(a), Int(b))
}
@_disfavoredOverload public func mutatedGreater(_ n: Int, _ a: some BinaryInteger, _ b: some BinaryInteger) -> Bool {
    mutatedGreater(n, Int(a), Int(b))
}
@_disfavoredOverload public func mutatedGreaterOrEqual(_ n: Int, _ a: some BinaryInteger, _ b: some BinaryInteger) -> Bool {
    mutatedGreaterOrEqual(n, Int(a), Int(b))
}
public func mutatedEqual<T: Equatable>(_ n: Int, _ a: T, _ b: T) -> Bool { (a == b) != (Mutant.active == n) }
public func mutatedUnequal<T: Equatable>(_ n: Int, _ a: T, _ b: T) -> Bool { (a != b) != (Mutant.active == n) }
'''

MANIFEST = '''// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6), .enableUpcomingFeature("ExistentialAny"), .enableUpcomingFeature("MemberImportVisibility"),
]

let package = Package(
    name: "Mutants",
    targets: [
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl"),
        .systemLibrary(name: "CSRTP", pkgConfig: "libsrtp2"),
        .systemLibrary(name: "COpus", pkgConfig: "opus"),
        .target(name: "CMediaCrypto", linkerSettings: [.linkedLibrary("crypto"), .linkedLibrary("dl")]),
        .target(name: "RTPCore", swiftSettings: settings),
        .target(
            name: "RelayCore", dependencies: ["RTPCore", "CMediaCrypto", "COpenSSL", "CSRTP", "COpus"], swiftSettings: settings),
        .target(
            name: "RelayTesting", dependencies: ["RelayCore", "RTPCore", "CMediaCrypto", "COpenSSL", "COpus"], swiftSettings: settings),
        .testTarget(
            name: "RTPCoreTests", dependencies: ["RTPCore", "RelayTesting", "COpenSSL", "COpus"], swiftSettings: settings),
    ])
'''


class Site:
    """One comparison. `number`: its first mutant's."""

    def __init__(self, file, line, operator, left, right, place):
        self.file, self.line, self.operator, self.left, self.right, self.place = file, line, operator, left, right, place
        self.number = 0

    @property
    def changes(self):
        return ORDER[self.operator][1]

    def name(self, change):
        return f"{self.file}: {self.left.strip()} {self.operator} {self.right.strip()}: {change}"


# Finding comparisons

WORDS = ("guard", "if", "while", "return", "else", "where", "case", "in", "try", "await", "let", "var")


def left_start(text, at):
    """Where the operand that ends at `at` begins."""
    depth, i = 0, at
    while i > 0:
        i -= 1
        c = text[i]
        if c in ")]}":
            depth += 1
        elif c in "([{":
            if depth == 0:
                return i + 1
            depth -= 1
        elif depth == 0:
            if c in ",;" or text[i:i + 2] in ("? ", ": ") or text[i:i + 3] in ("&& ", "|| ") or text[i - 1:i + 2] == " = ":
                return i + (3 if c in "&|" else 1)
            word = re.match(r"(\w+)\s", text[i:])
            if word and word[1] in WORDS and (i == 0 or not (text[i - 1].isalnum() or text[i - 1] in "._")):
                return i + len(word[1])
    return 0


def right_end(text, at):
    """Where the operand that begins at `at` ends."""
    depth, i = 0, at
    while i < len(text):
        c = text[i]
        if c in "([":
            depth += 1
        elif c in ")]":
            if depth == 0:
                return i
            depth -= 1
        elif depth == 0:
            if c in ",;{}" or text[i:] == ":" or text[i:i + 3] in (" ? ", " : ", " &&", " ||") or re.match(r" else\b| \? | in ", text[i:]):
                return i
        i += 1
    return i


def sites_of(file, text):
    found, lines = [], text.split("\n")
    for index, line in enumerate(lines):
        code = re.sub(r"//.*", "", line)
        if "precondition(" in code or "assert(" in code or "preconditionFailure" in code:
            continue
        following = lines[index + 1].strip() if index + 1 < len(lines) else ""
        for match in re.finditer(r" (<=|>=|<|>|==|!=) ", code):
            if code[:match.start()].count('"') % 2:
                continue
            start, end = left_start(code, match.start()), right_end(code, match.end())
            left, right = code[start:match.start()], code[match.end():end]
            operator = match[1]
            if not left.strip() or not right.strip() or (end == len(code) and re.match(r"[-+*/%|^.]|&[^&]|<<|>>|\?\?", following)):
                continue
            if operator in ("==", "!=") and (
                    right.strip() == "nil" or not LENGTH.search(left + " " + right) or re.search(r" & ", left)):
                continue
            found.append(Site(file, index + 1, operator, left, right, (start, end)))
    return found


def mutated(text, sites):
    """The text with each site's call in its place."""
    lines = text.split("\n")
    for site in sorted(sites, key=lambda site: (site.line, site.place[0]), reverse=True):
        line = lines[site.line - 1]
        start, end = site.place
        lead = site.left[:len(site.left) - len(site.left.lstrip())]
        trail = site.right[len(site.right.rstrip()):]
        call = f"{ORDER[site.operator][0]}({site.number}, {site.left.strip()}, {site.right.strip()})"
        lines[site.line - 1] = line[:start] + lead + call + trail + line[end:]
    return "\n".join(lines)


def nested(site, sites):
    """Whether the site lies within another one's operands on its line: only the inner one is changed."""
    return any(other is not site and other.line == site.line and site.place[0] <= other.place[0] and other.place[1] <= site.place[1]
               for other in sites)


# Building


def write(path, text):
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def copy_tree():
    for folder in ("Sources/COpenSSL", "Sources/CSRTP", "Sources/COpus", "Sources/CMediaCrypto", CORE, "Sources/RelayCore",
                   "Sources/RelayTesting", "Tests/RTPCoreTests"):
        known = set()
        for file in (ROOT / folder).rglob("*"):
            if file.is_file():
                known.add(COPY / file.relative_to(ROOT))
                if CORE not in str(file):
                    write(COPY / file.relative_to(ROOT), file.read_text())
        for file in (COPY / folder).rglob("*"):
            if file.is_file() and file not in known and file.name != "Mutant.swift":
                file.unlink()
    fixtures = COPY / "Tests/Fixtures"
    if not fixtures.is_symlink():
        fixtures.symlink_to(ROOT / "Tests/Fixtures")
    write(COPY / "Package.swift", MANIFEST)
    write(COPY / CORE / "Mutant.swift", FUNCTIONS)


def build(texts, sites):
    """Builds the copy with every site that compiles; gives those sites."""
    swift = os.environ.get("SWIFT", "swift")
    # What did not compile the last time: tried again, it would cost the whole build.
    memory = COPY / "not-mutated.txt"
    known = set(memory.read_text().splitlines()) if memory.exists() else set()
    sites = [site for site in sites if site.name("") not in known]
    for _ in range(8):
        for file, text in texts.items():
            write(COPY / CORE / file, mutated(text, [site for site in sites if site.file == file]))
        command = [swift, "build", "-c", "release", "--package-path", str(COPY), "-Xswiftc", "-enable-testing"]
        # RTPCore by itself first: what does not compile is found there.
        first = subprocess.run(command + ["--target", "RTPCore"], capture_output=True, text=True)
        output = first.stdout + first.stderr
        if first.returncode == 0:
            rest = subprocess.run(command + ["--build-tests"], capture_output=True, text=True)
            if rest.returncode == 0:
                return sites
            sys.exit((rest.stdout + rest.stderr)[-6000:] + "\nmutate: the copy does not build")
        # The call that an error stands in.
        wrong = set()
        for file, line, column in re.findall(rf"{re.escape(str(COPY / CORE))}/(\S+?):(\d+):(\d+): error", output):
            text = (COPY / CORE / file).read_text().split("\n")[int(line) - 1]
            calls = [int(call[1]) for call in re.finditer(r"mutated\w+\((\d+),", text) if call.start() < int(column)]
            wrong |= set(calls[-1:])
        kept = [site for site in sites if site.number not in wrong]
        if len(kept) == len(sites):
            sys.exit(output[-6000:] + "\nmutate: the copy does not build")
        for site in sites:
            if site not in kept:
                print(f"   not mutated, no two integers: {site.file}:{site.line}: {site.left.strip()} {site.operator} {site.right.strip()}")
                known.add(site.name(""))
        memory.write_text("\n".join(sorted(known)) + "\n")
        sites = kept
    sys.exit("mutate: the copy does not build after eight tries")


# Running


def run(bundle, number, seconds, *selection):
    """Whether the tests notice a mutant."""
    environment = {**os.environ, "MUTANT": str(number), "SWIFT_BACKTRACE": "enable=no"}
    with subprocess.Popen(
            [bundle, "--testing-library", "swift-testing", *selection], env=environment, cwd=COPY, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as process:
        try:
            return process.wait(seconds) != 0
        except subprocess.TimeoutExpired:
            process.kill()
            return True


# What takes longest reads no bytes.
ALL = ("--skip", "BandwidthEstimatorTests")


def is_noticed(bundle, site, number, seconds):
    """By the suites of its own folder, or by any."""
    suites = [re.escape(file.stem) for file in (ROOT / "Tests/RTPCoreTests" / site.file.split("/")[0]).glob("*Tests.swift")]
    return run(bundle, number, seconds, "--filter", "|".join(suites)) or run(bundle, number, seconds, *ALL)


def equivalents():
    """Name of a mutant: why nobody can see it."""
    found, reason = {}, ""
    for line in EQUIVALENT.read_text().splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line.strip():
            found[line.strip()] = reason
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", metavar="FOLDER/FILE")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help="name the mutants, build nothing")
    arguments = parser.parse_args()
    texts = {str(file.relative_to(ROOT / CORE)): file.read_text() for file in sorted((ROOT / CORE).rglob("*.swift"))}
    sites = []
    for file, text in texts.items():
        if file.split("/")[0] in PARSERS:
            found = sites_of(file, text)
            sites += [site for site in found if not nested(site, found)]
    number = 0
    for site in sites:
        site.number = number
        number += len(site.changes)
    if arguments.list:
        for site in sites:
            for change in site.changes:
                print(site.name(change))
        print(f"mutate: {number} mutants")
        return 0
    started = time.monotonic()
    print(f"== mutate: building {number} mutants of {len(sites)} comparisons into one copy", flush=True)
    copy_tree()
    sites = build(texts, sites)
    bundle = str(next((COPY / ".build/release").glob("*PackageTests.xctest")))
    began = time.monotonic()
    if run(bundle, -1, 600, *ALL):
        sys.exit("mutate: the tests fail without a mutant")
    usual = time.monotonic() - began
    print(f"== mutate: built after {began - started:.0f} s; the tests take {usual:.1f} s", flush=True)
    mutants = [(site, change, site.number + index) for site in sites for index, change in enumerate(site.changes)
               if arguments.only in site.file]
    explained, survived, noticed, silent, told = equivalents(), [], 0, 0, time.monotonic()
    seen = set()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        tasks = {pool.submit(is_noticed, bundle, site, number, max(10, 8 * usual)): (site, change) for site, change, number in mutants}
        for done, task in enumerate(concurrent.futures.as_completed(tasks), 1):
            site, change = tasks[task]
            name = site.name(change)
            if task.result():
                noticed += 1
            elif name in explained:
                silent += 1
                seen.add(name)
            else:
                survived.append((site, change))
                print(f"   survived: {site.file}:{site.line}: {name.split(': ', 1)[1]}", flush=True)
            if time.monotonic() - told > 60:
                told = time.monotonic()
                print(f"   … {done} of {len(mutants)}, {len(survived)} survived", flush=True)
    wrong = [name for name in explained if arguments.only in name and name not in seen]
    for name in wrong:
        print(f"   said to be equivalent, but noticed or gone: {name}")
    minutes = (time.monotonic() - started) / 60
    print(f"mutate: {len(mutants)} mutants, {noticed} noticed, {silent} equivalent, {len(survived)} survived"
          + (f", {len(wrong)} wrongly explained" if wrong else "") + f" ({minutes:.0f} min)")
    return 1 if survived or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
