#!/usr/bin/env python3
"""Writes docs/openapi.yaml from Sources/MediaRelay/Page/openapi.json, the contract that the relay serves.

Usage: scripts/openapi.py [--check]     --check only says whether both agree (exit code 1 when they do not).
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "Sources/MediaRelay/Page/openapi.json"
TARGET = ROOT / "docs/openapi.yaml"
HEAD = "# Made by scripts/openapi.py from Sources/MediaRelay/Page/openapi.json: change that file.\n"
# Words that YAML would read as something else than text, and plain text that needs no quotes.
RESERVED = {"true", "false", "null", "yes", "no", "on", "off", "y", "n", "~"}
PLAIN = re.compile(r"[A-Za-z/_$][A-Za-z0-9_$/.{} ()-]*[A-Za-z0-9_/.})]|[A-Za-z]")


def scalar(value):
    if isinstance(value, str):
        if PLAIN.fullmatch(value) and value.lower() not in RESERVED:
            return value
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value)


def lines(value, indent=0):
    """Block style; empty objects and lists of scalars in flow style."""
    pad = "  " * indent
    if isinstance(value, dict):
        for key, inner in value.items():
            name = pad + scalar(key) + ":"
            if is_flow(inner):
                yield f"{name} {flow(inner)}"
            else:
                yield name
                yield from lines(inner, indent + 1)
    else:
        for inner in value:
            if is_flow(inner):
                yield f"{pad}- {flow(inner)}"
            else:
                first, *rest = lines(inner, indent + 1)
                yield f"{pad}- {first.lstrip()}"
                yield from rest


def is_flow(value):
    if isinstance(value, list):
        return all(not isinstance(inner, (dict, list)) for inner in value)
    return not isinstance(value, dict) or not value


def flow(value):
    if isinstance(value, list):
        return "[" + ", ".join(json.dumps(inner, ensure_ascii=False) for inner in value) + "]"
    return "{}" if isinstance(value, dict) else scalar(value)


def main():
    text = HEAD + "\n".join(lines(json.loads(SOURCE.read_text()))) + "\n"
    if "--check" in sys.argv[1:]:
        if not TARGET.exists() or TARGET.read_text() != text:
            sys.exit(f"{TARGET.relative_to(ROOT)} is not what scripts/openapi.py makes of the served contract")
        return
    TARGET.write_text(text)


if __name__ == "__main__":
    main()
