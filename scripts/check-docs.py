#!/usr/bin/env python3
"""Holds the documents to the project: links and their anchors lead somewhere, and commands, options, make targets and files that they name exist.

Usage: scripts/check-docs.py     Looks at the Markdown files that git knows, builds nothing and asks no network; exit code 1 on a finding.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```+)(\w*)\n(.*?)^\1", re.MULTILINE | re.DOTALL)
# In `code`: what looks like a file of the project.
PLACE = re.compile(r"`((?:Sources|Tests|bench|clients|docs|examples|packaging|scripts)/[\w./+-]*[\w/])`")


def slug(heading):
    """The anchor that GitHub gives a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")


def anchors(text):
    found = set()
    for heading in re.findall(r"^#+ +(.+?) *$", FENCE.sub("", text), re.MULTILINE):
        base, number = slug(heading), 0
        name = base
        while name in found:
            number += 1
            name = f"{base}-{number}"
        found.add(name)
    return found


def words_of(pattern, *paths):
    return {match for path in paths for match in re.findall(pattern, (ROOT / path).read_text())}


def commands():
    """Every command of the program with its own options, out of its table."""
    table = (ROOT / "Sources/RelayCommands/Table/CommandTable.swift").read_text()
    paths = re.findall(r"path: \[([^\]]+)\]", table)
    named = {" ".join(re.findall(r'"([^"]+)"', path)) for path in paths}
    return named - {""}, set(re.findall(r'name: "([a-z-]+)"', table))


def check_links(path, text, faults):
    for target in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        other = (path.parent / name).resolve() if name else path
        if not other.exists():
            faults.append(f"{path.relative_to(ROOT)}: {target} is not there")
        elif anchor and other.suffix == ".md" and anchor not in anchors(other.read_text()):
            faults.append(f"{path.relative_to(ROOT)}: {target} has no such heading")


def check_commands(path, text, known, options, node_options, faults):
    """Lines that call the program: `media-relay COMMAND …`, in blocks and in code."""
    where = path.relative_to(ROOT)
    lines = [line for _, _, block in FENCE.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    lines += re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    first = {command.split()[0] for command in known}
    for line in lines:
        for call in re.finditer(r"(?:^|[\s/(=])media-relay ((?:[a-z]+\b ?)+)(.*)", line.split("#")[0] if line.startswith("media") else line):
            words = call[1].split()
            # A command, or one of those that stand for their first verb (`rooms` is `rooms list`).
            if words[0] in first:
                two = " ".join(words[:2])
                if words[0] not in known and two not in known and len(words) > 1:
                    faults.append(f"{where}: no command {two!r}")
                for option in re.findall(r"--([a-z][a-z-]*)", re.split(r"[|&;)]", call[0].split("media-relay", 1)[1])[0]):
                    if option not in options | node_options | {"help"}:
                        faults.append(f"{where}: {words[0]} has no option --{option}")
            elif path.name != "ARCHITECTURE.md" and (call[2].startswith("-") or len(words) > 1 and "--" in call[2]):
                faults.append(f"{where}: no command {words[0]!r}")
    targets = words_of(r"(?m)^([a-z][a-z-]*):", "Makefile")
    for line in lines:
        target = re.match(r"\s*make ([a-z][a-z-]*)", line)
        if target and target[1] not in targets:
            faults.append(f"{where}: the Makefile has no target {target[1]}")


def check_places(path, text, faults):
    for place in PLACE.findall(text):
        if place.startswith("bench/out/") or re.search(r"[A-Z]{4}", pathlib.Path(place).name):
            # Made by running something; a placeholder.
            continue
        if not (ROOT / place).exists() and not list(ROOT.glob(place + "*")):
            faults.append(f"{path.relative_to(ROOT)}: {place} is not there")


def check_options(path, text, node_options, options, faults):
    """Options that are named in `code`."""
    for span in re.findall(r"`(--[a-z][^`]*)`", FENCE.sub("", text)):
        name = re.match(r"--([a-z-]+)", span)[1]
        if name not in node_options | options | FOREIGN:
            faults.append(f"{path.relative_to(ROOT)}: there is no option --{name}")


# Of other programs that the documents speak of.
FOREIGN = {
    "scratch-path", "filter", "json", "kill-whom", "short", "only", "quick", "guard", "net", "help", "list", "seed", "window-ms",
    "name",
}


def main():
    names = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    known, options = commands()
    node_options = words_of(r'"([a-z][a-z-]*)"', "Sources/MediaRelay/Configuration/OptionName.swift")
    for line in (ROOT / "Sources/MediaRelay/Configuration/OptionName.swift").read_text().splitlines():
        if line.strip().startswith("case ") and "=" not in line:
            node_options |= set(re.findall(r"\w+", line.split("case", 1)[1]))
    faults, links = [], 0
    for name in names:
        path = ROOT / name
        text = path.read_text()
        links += len(LINK.findall(text))
        check_links(path, text, faults)
        if "Fixtures" in name:
            continue
        check_commands(path, text, known, options, node_options, faults)
        check_places(path, text, faults)
        check_options(path, text, node_options, options, faults)
    for fault in sorted(set(faults)):
        print(fault)
    print(f"documents: {len(names)} files, {links} links, {len(known)} commands; {len(set(faults))} findings")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
