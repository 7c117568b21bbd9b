"""What the release binary is made of, read from its ELF file: hardening, no test-only switches, and its bill of materials."""
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

from relay import BINARY, ROOT, check


def read(*options):
    return subprocess.run(["readelf", *options], check=True, capture_output=True, text=True).stdout


def hardened_binary():
    """Position-independent, no writable code or stack, relocations read-only and bound at the start; C with guards for its stack."""
    header, segments, dynamic = (read(option, "-W", str(BINARY)) for option in ("-h", "-l", "-d"))
    check(re.search(r"Type:\s+DYN", header) and re.search(r"\(FLAGS_1\).*\bPIE\b", dynamic), "not position-independent")
    check("GNU_RELRO" in segments, "no read-only relocations")
    check(re.search(r"BIND_NOW|\(FLAGS_1\).*\bNOW\b", dynamic), "functions are bound lazily, so their table stays writable")
    check(re.search(r"GNU_STACK\s.*\sRW\s", segments), "the stack is executable")
    check(not re.search(r"LOAD\s.*\sRWE\s", segments), "a segment is writable and executable")
    check("TEXTREL" not in dynamic, "relocations in code")
    names = read("--dyn-syms", "-W", str(BINARY))
    check("__stack_chk_fail" in names, "no stack protector")
    fortified = sorted(set(re.findall(r"\b(__\w+_chk)\b", names)) - {"__stack_chk_fail"})
    check(fortified, "no copy is checked: was it built without FORTIFY?")
    # The switches of the attack suite's negative control are in its own copy of the sources only.
    content = BINARY.read_bytes()
    for word in (b"GUARD_OFF", b"GuardSwitch", b"mutatedLess"):
        check(word not in content, f"the binary knows {word.decode()}")
    return f"{objects()} C objects; {', '.join(fortified)}"


def objects():
    """How many of the C targets' objects were looked at: each is built for checked branches, where the machine has them."""
    count = 0
    for target in ("CLinuxIO", "CMediaCrypto"):
        files = sorted((ROOT / f".build/release/{target}.build").glob("*.o"))
        check(files, f"no objects of {target}: is another build folder in use?")
        protected = 0
        for file in files:
            count += 1
            protected += "__stack_chk_fail" in read("-s", "-W", str(file))
            if platform.machine() == "x86_64":
                check("IBT, SHSTK" in read("-n", str(file)), f"{file.name} is built without -fcf-protection")
        check(protected, f"no object of {target} has a stack protector")
    return count


def bill_of_materials():
    """`make sbom` names everything that the loader loads for the binary, in the versions that are installed."""
    text = subprocess.run(
        [sys.executable, str(ROOT / "scripts/sbom.py"), "--binary", str(BINARY)], check=True, capture_output=True, text=True).stdout
    again = subprocess.run(
        [sys.executable, str(ROOT / "scripts/sbom.py"), "--binary", str(BINARY)], check=True, capture_output=True, text=True).stdout
    check(text == again, "the same binary has two different bills")
    bill = json.loads(text)
    check((bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5"), "no CycloneDX 1.5")
    check(re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bill["serialNumber"]), "no serial number")
    components = {component["bom-ref"]: component for component in bill["components"]}
    files = {file["name"] for component in components.values() for file in component.get("components", [])}
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", read("-d", "-W", str(BINARY))))
    check(needed and needed <= files, f"not in the bill: {sorted(needed - files)}")
    mapped = loaded()
    known = {file["properties"][0]["value"] for component in components.values() for file in component.get("components", [])}
    check(mapped <= known, f"loaded, but not in the bill: {sorted(mapped - known)}")
    for component in components.values():
        check(component["type"] == "library" and component["purl"] and component["version"], f"half a component: {component}")
        if component["purl"].startswith("pkg:deb/"):
            installed = subprocess.run(
                ["dpkg-query", "-W", "-f=${Version}", component["name"]], check=True, capture_output=True, text=True).stdout
            check(installed == component["version"], f"{component['name']} is installed as {installed}")
    root, = bill["dependencies"]
    names = {components[reference]["name"] for reference in root["dependsOn"]}
    for name in ("libssl3", "libsrtp2-1", "libopus0", "libsqlite3-0", "libcurl4", "swift-runtime"):
        check(name in names, f"{name} is no dependency")
    return f"{len(components)} components, {len(files)} files, {len(names)} of them the relay's own choice"


def loaded():
    """Libraries in the address space of a running relay."""
    from relay import Relay
    with Relay() as relay:
        found = set()
        for pid in [relay.process.pid, *relay.worker_pids()]:
            found |= set(re.findall(r"/([^/\s]+\.so[.\d]*)$", pathlib.Path(f"/proc/{pid}/maps").read_text(), re.MULTILINE))
    # Not the dynamic loader itself, the C library's plugins for names, and what somebody preloads.
    preloaded = {os.path.basename(path) for path in re.split(r"[: ]", os.environ.get("LD_PRELOAD", ""))}
    return {name for name in found - preloaded if not name.startswith(("ld-linux", "libnss_"))}
