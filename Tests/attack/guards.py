"""The negative control: a relay with a guard switched off, on which the suite must fail.

The product has no such switch. A copy of the sources under .build/guards-off gets a few lines changed, each behind a name that the
environment variable MEDIA_RELAY_GUARD_OFF gives at the start; with the variable unset the copy behaves like the product. A change whose
place is no longer in the sources stops the build.
"""
import subprocess
import sys

from relay import ROOT

COPY = ROOT / ".build/guards-off"

SWITCH = '''import Glibc

/// In this copy only: guards that the environment switches off.
package enum GuardSwitch {
    private static let name: String = getenv("MEDIA_RELAY_GUARD_OFF").map { String(cString: $0) } ?? ""
%s}
'''


class Guard:
    """`changes`: (file, text that is there once, text with OFF in the place of the switch). `entries`: what must fail."""

    def __init__(self, words, entries, *changes):
        self.words, self.entries, self.changes = words, entries, changes


ENGINE = "Sources/RelayCore/Engine/MediaEngine+"
CLAIM = """        // Only authentic packets count: forged ones would take the client's places (T13).
        """

GUARDS = {
    "integrity": Guard(
        "MESSAGE-INTEGRITY of checks is not compared", ["T12", "T13"],
        (ENGINE + "ICE.swift", "return expected.matches(carried)", "return OFF || expected.matches(carried)")),
    "address": Guard(
        "media latches: a packet from an unknown address moves the first client there", ["T15"],
        (ENGINE + "Receive.swift", "guard let flow = flows.find(peer) else { return counters.drop(.rtpUnknownAddress) }",
         """if OFF, flows.find(peer) == nil, let first = transportByHandle.values.min() {
            transports[Int(first)].peer = peer
        }
        guard let flow = flows.find(peer) else { return counters.drop(.rtpUnknownAddress) }""")),
    "validation": Guard(
        "an address counts as proven by the client's check alone", ["T16"],
        (ENGINE + "Paths.swift", "fresh.isValidated = peer.isStream", "fresh.isValidated = OFF || peer.isStream")),
    "amplification": Guard(
        "no bound on what is sent to an unproven address", ["T31"],
        (ENGINE[:-1] + ".swift", "if !path.pointee.isValidated {", "if !OFF, !path.pointee.isValidated {")),
    "fingerprint": Guard(
        "any certificate is taken", ["T34"],
        ("Sources/RelayCore/DTLS/DTLSConnection.swift", "guard ssl.peerMatches(fingerprints) else {",
         "guard OFF || ssl.peerMatches(fingerprints) else {")),
    "replay": Guard(
        "packets are taken as often as they come", ["T52"],
        (ENGINE + "Receive.swift", "if !source.pointee.replay.check(index) {", "if !OFF, !source.pointee.replay.check(index) {")),
    "rate": Guard(
        "a client may send as much as it likes", ["T56"],
        (ENGINE + "Receive.swift", CLAIM + "guard transport.pointee", CLAIM + "guard OFF || transport.pointee")),
    "gate": Guard(
        "media passes as soon as there are keys, joined or not", ["T70"],
        (ENGINE + "Handshake.swift", "if transport.pointee.flags.contains(.joinWanted) {",
         "if OFF || transport.pointee.flags.contains(.joinWanted) {")),
    "token": Guard(
        "signatures of tokens are not verified", ["T72"],
        ("Sources/MediaRelay/API/TokenVerifier.swift", "guard key.verifies(signed, signature: signature) else",
         "guard OFF || key.verifies(signed, signature: signature) else")),
    "identity": Guard(
        "fields may stand twice in JSON", ["T73"],
        ("Sources/MediaRelay/API/JSONReader.swift", "guard names.insert(name).inserted else",
         "guard names.insert(name).inserted || OFF else")),
    "prepared": Guard(
        "a user may prepare any number of sessions", ["T76"],
        ("Sources/RelayCore/Conductor/Conductor+Prepare.swift", "guard waiting < configuration.preparedPerUser else {",
         "guard OFF || waiting < configuration.preparedPerUser else {")),
}


def build():
    """Makes the copy and builds its release binary; gives the binary's path."""
    names = "".join(f'    package static let {name} = Self.name == "{name}"\n' for name in GUARDS)
    texts = {"Sources/RelayCore/Shared/GuardSwitch.swift": SWITCH % names}
    for name, guard in GUARDS.items():
        for file, before, after in guard.changes:
            text = texts.get(file) or (ROOT / file).read_text()
            if text.count(before) != 1:
                sys.exit(f"guards.py: {name}: its place in {file} is there {text.count(before)} times: {before.strip()[:60]}")
            texts[file] = text.replace(before, after.replace("OFF", f"GuardSwitch.{name}"))
    for file, text in texts.items():
        if "import RelayCore" not in text and "/RelayCore/" not in file:
            texts[file] = "import RelayCore\n" + text
    for name in ("Package.swift", "Sources", "Tests", "bench"):
        for file in [ROOT / name] if (ROOT / name).is_file() else sorted((ROOT / name).rglob("*")):
            relative = str(file.relative_to(ROOT))
            if file.is_file() and relative not in texts and "__pycache__" not in relative:
                write(COPY / relative, file.read_bytes())
    for file, text in texts.items():
        write(COPY / file, text.encode())
    print(f"== building the copy with switches in {COPY.relative_to(ROOT)}", flush=True)
    subprocess.run(["swift", "build", "-c", "release", "--product", "media-relay", "--package-path", str(COPY)], check=True)
    return COPY / ".build/release/media-relay"


def write(path, content):
    """Writes what differs only: times decide what is compiled again."""
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
