#!/usr/bin/env python3
"""Writes the software bill of materials of a built media-relay: CycloneDX 1.5, JSON, of every library that it is linked with.

Usage: scripts/sbom.py [--binary .build/release/media-relay] [--out FILE]     without --out to standard output.

Debian's libraries stand there with package and version, Swift's with the version of the compiler; each with the SHA-256 of the file
that was there. What the binary itself names is told apart from what those libraries need (`dependencies`). The same build on the same
machine gives the same bytes. Needs readelf, ldd and dpkg-query.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAME = "media-relay"
# Loaded at the start where it is there (CMediaCrypto/IPsecMB.c), so in no table of the binary.
LOADED_AT_RUN_TIME = ["libIPSec_MB.so.1"]


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout


def needed(binary):
    """Names of the libraries that the binary itself asks for."""
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-dW", str(binary)))


def resolved(binary):
    """Every library that is loaded with the binary: name, path."""
    found = dict(re.findall(r"^\s*(\S+) => (\S+) \(", output("ldd", str(binary)), re.MULTILINE))
    cache = output(shutil.which("ldconfig") or "/sbin/ldconfig", "-p")
    for name in LOADED_AT_RUN_TIME:
        path = re.search(rf"^\s*{re.escape(name)} .*=> (\S+)$", cache, re.MULTILINE)
        if path:
            found[name] = path[1]
    return found


def owners(paths):
    """Debian's package of each file that has one: path: (name, version, source package, architecture)."""
    # A file may be known by the name in /lib or in /usr/lib, of the link or of what it names.
    names = {path: {path, os.path.realpath(path), "/usr" + path, os.path.realpath(path).removeprefix("/usr")} for path in paths}
    listed = subprocess.run(["dpkg-query", "-S", *sorted(set().union(*names.values()))], capture_output=True, text=True).stdout
    by_name = {path: packages.split(",")[0].split(":")[0] for packages, path in re.findall(r"^(\S+(?:, \S+)*): (/.*)$", listed, re.MULTILINE)}
    found = {path: next((by_name[name] for name in sorted(known) if name in by_name), None) for path, known in names.items()}
    form = "${Package}\t${Version}\t${source:Package}\t${Architecture}\n"
    lines = output("dpkg-query", "-W", f"-f={form}", *sorted({name for name in found.values() if name})).splitlines()
    facts = {line.split("\t")[0]: tuple(line.split("\t")) for line in lines}
    return {path: facts[name] for path, name in found.items() if name}


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def debian():
    """The distribution as package URLs name it: debian-12."""
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', pathlib.Path("/etc/os-release").read_text(), re.MULTILINE))
    return release.get("ID", "debian"), release.get("VERSION_ID", "")


def swift_version():
    swift = os.environ.get("SWIFT", "swift")
    return re.search(r"Swift version (\S+)", output(swift, "--version"))[1]


def version(binary):
    """What `media-relay version` says."""
    text = (ROOT / "Sources/MediaRelay/Version.swift").read_text()
    return re.search(r'text = "([^"]+)"', text)[1]


def bill(binary):
    direct, components, by_library = needed(binary), {}, {}
    distribution, release = debian()
    libraries = resolved(binary)
    packages = owners(libraries.values())
    for name, path in sorted(libraries.items()):
        package = packages.get(path)
        if package:
            package_name, package_version, source, architecture = package
            reference = f"pkg:deb/{distribution}/{package_name}@{package_version}?arch={architecture}&distro={distribution}-{release}"
            component = {"name": package_name, "version": package_version, "purl": reference,
                         "properties": [{"name": "debian:source", "value": source}]}
        else:
            reference = f"pkg:generic/swift-runtime@{swift_version()}"
            if not re.search(r"swift|Foundation|dispatch|BlocksRuntime", name):
                sys.exit(f"sbom: {path} belongs to no package, and is not Swift's")
            component = {"name": "swift-runtime", "version": swift_version(), "purl": reference,
                         "licenses": [{"license": {"id": "Apache-2.0"}}]}
        by_library[name] = reference
        entry = components.setdefault(reference, {"type": "library", "bom-ref": reference, **component, "components": []})
        entry["components"].append({
            "type": "file", "bom-ref": f"{reference}#{name}", "name": name, "hashes": [{"alg": "SHA-256", "content": digest(path)}],
            "properties": [{"name": "file", "value": os.path.basename(os.path.realpath(path))}]})
    if not any(reference.startswith("pkg:generic/swift-runtime") for reference in components):
        # Linked into the binary.
        reference = f"pkg:generic/swift-runtime@{swift_version()}"
        components[reference] = {
            "type": "library", "bom-ref": reference, "name": "swift-runtime", "version": swift_version(), "purl": reference,
            "licenses": [{"license": {"id": "Apache-2.0"}}], "properties": [{"name": "linked", "value": "static"}]}
        by_library["static"] = reference
        direct = [*direct, "static"]
    root = f"pkg:generic/{NAME}@{version(binary)}"
    own = sorted({by_library[name] for name in [*direct, *LOADED_AT_RUN_TIME] if name in by_library})
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {
            "component": {
                "type": "application", "bom-ref": root, "name": NAME, "version": version(binary), "purl": root,
                "hashes": [{"alg": "SHA-256", "content": digest(binary)}]},
            "tools": {"components": [{"type": "application", "name": "scripts/sbom.py"}]}},
        "components": [components[reference] for reference in sorted(components)],
        "dependencies": [{"ref": root, "dependsOn": own}],
    }
    # The same content has the same number.
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return {**document, "serialNumber": f"urn:uuid:{number}"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / ".build/release/media-relay")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    if not arguments.binary.exists():
        sys.exit(f"sbom: {arguments.binary} is missing: make build")
    document = bill(arguments.binary)
    text = json.dumps(document, indent=2) + "\n"
    if arguments.out is None:
        sys.stdout.write(text)
        return 0
    arguments.out.write_text(text)
    print(f"sbom: {len(document['components'])} components in {arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
