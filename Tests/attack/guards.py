"""The negative control: a relay with a guard switched off, on which the suite must fail.

The product has no such switch. A copy of the sources under .build/guards-off gets a few lines changed, each behind a name that the
environment variable MEDIA_RELAY_GUARD_OFF gives at the start; with the variable unset the copy behaves like the product. A change whose
place is no longer in the sources stops the build.
"""
import subprocess
import sys

from relay import ROOT

COPY = ROOT / ".build/guards-off"

# One in each module that has guards, so that none has to know another.
SWITCH = '''import Glibc

/// In this copy only: guards that the environment switches off.
enum GuardSwitch {
    private static let name: String = getenv("MEDIA_RELAY_GUARD_OFF").map { String(cString: $0) } ?? ""
    /// What strangers make this copy keep.
    nonisolated(unsafe) static var kept: [[UInt8]] = []
%s}
'''
MODULES = ("RelayCore", "RelayHTTP", "MediaRelay")


class Guard:
    """`changes`: (file, text that is there once, text with OFF in the place of the switch). `entries`: what must fail."""

    def __init__(self, words, entries, *changes):
        self.words, self.entries, self.changes = words, entries, changes


ENGINE = "Sources/RelayCore/Engine/MediaEngine+"
CLAIM = """        // Only authentic packets count: forged ones would take the client's places (T13).
        """

GUARDS = {
    "silence": Guard(
        "STUN of strangers is answered", ["T10"],
        (ENGINE + "ICE.swift", "        let datagram = UnsafeBufferPointer(start: bytes, count: count)\n        guard let message",
         """        let datagram = UnsafeBufferPointer(start: bytes, count: count)
        if OFF, flows.find(peer) == nil, count > 0, let slot = transmit.reserve() {
            slot.update(from: bytes, count: count)
            transmit.commit(byteCount: count, to: peer, local: local)
        }
        guard let message""")),
    "state": Guard(
        "something is kept of each stranger's check", ["T11"],
        (ENGINE + "ICE.swift", """            let details = details[Int(index)]
        else { return counters.drop(.stunUnknownUfrag) }""", """            let details = details[Int(index)]
        else {
            if OFF { GuardSwitch.kept.append([UInt8](repeating: 1, count: 200)) }
            return counters.drop(.stunUnknownUfrag)
        }""")),
    "connections": Guard(
        "one source may hold any number of connections", ["T11"],
        ("Sources/MediaRelay/Worker/StreamAdmission.swift", "guard ofSource < sourceLimit else { return",
         "guard OFF || ofSource < sourceLimit else { return")),
    "user": Guard(
        "the client's half of a check's user name is not compared", ["T12"],
        (ENGINE + "ICE.swift", "guard datagram[username.sender].elementsEqual(", "guard OFF || datagram[username.sender].elementsEqual(")),
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
    "hello": Guard(
        "records from addresses without a check reach the newest handshake", ["T30"],
        (ENGINE + "Handshake.swift", "guard let flow = flows.find(peer) else { return counters.drop(.dtlsUnknownAddress) }",
         """guard
            let flow = flows.find(peer)
                ?? (OFF ? transportByHandle.values.max().map { (transport: $0, path: Int32(0)) } : nil)
        else { return counters.drop(.dtlsUnknownAddress) }""")),
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
    "share": Guard(
        "everybody's forged checks are taken from one share", ["T21"],
        ("Sources/RelayCore/Engine/CheckBudget.swift", "return Int(truncatingIfNeeded: (mixed ^ mixed &>> 31) &>> 8) & (Self.shareCount - 1)",
         "return OFF ? 0 : Int(truncatingIfNeeded: (mixed ^ mixed &>> 31) &>> 8) & (Self.shareCount - 1)")),
    "gate": Guard(
        "media passes as soon as there are keys, joined or not", ["T70"],
        (ENGINE + "Handshake.swift", "if transport.pointee.flags.contains(.joinWanted) {",
         "if OFF || transport.pointee.flags.contains(.joinWanted) {")),
    "token": Guard(
        "signatures of tokens are not verified", ["T72"],
        ("Sources/MediaRelay/API/TokenVerifier.swift", "guard key.verifies(signed, signature: signature) else",
         "guard OFF || key.verifies(signed, signature: signature) else")),
    "access": Guard(
        "no token is needed", ["T74"],
        ("Sources/MediaRelay/API/Router.swift", """    private func authenticate(_ request: HTTPRequest) throws(Problem) -> TokenClaims {
""", """    private func authenticate(_ request: HTTPRequest) throws(Problem) -> TokenClaims {
        if OFF, request.headers.firstBytes("Authorization") == nil {
            return TokenClaims(principal: .server(keyID: "anybody"), expiry: .max, isExpired: false)
        }
""")),
    "guesses": Guard(
        "a token may ask as often as it likes", ["T75"],
        ("Sources/MediaRelay/API/Router.swift", "guard left > 0 else {", "guard OFF || left > 0 else {")),
    "identity": Guard(
        "fields may stand twice in JSON", ["T73"],
        ("Sources/MediaRelay/API/JSONReader.swift", "guard names.insert(name).inserted else",
         "guard names.insert(name).inserted || OFF else")),
    "prepared": Guard(
        "a user may prepare any number of sessions", ["T76"],
        ("Sources/RelayCore/Conductor/Conductor+Prepare.swift", "guard waiting < configuration.preparedPerUser else {",
         "guard OFF || waiting < configuration.preparedPerUser else {")),
    "framing": Guard(
        "a request may have two lengths", ["T80"],
        ("Sources/RelayHTTP/Parser/Framing.swift", "guard lengthCount <= 1, codingCount <= 1, lengthCount + codingCount <= 1 else {",
         "guard OFF || (lengthCount <= 1 && codingCount <= 1 && lengthCount + codingCount <= 1) else {")),
    "secrets": Guard(
        "offers are logged", ["T88"],
        ("Sources/MediaRelay/Control/ControlLoop.swift", """        case .request(let id, let principal, let request, let form, let readAt, let key):
""", """        case .request(let id, let principal, let request, let form, let readAt, let key):
            if OFF, case .prepare(_, _, let offer, _, _) = request {
                log.write(.info, String(decoding: offer, as: UTF8.self))
            }
""")),
}


def build():
    """Makes the copy and builds its release binary; gives the binary's path."""
    names = "".join(f'    static let {name} = Self.name == "{name}"\n' for name in GUARDS)
    texts = {f"Sources/{module}/GuardSwitch.swift": SWITCH % names for module in MODULES}
    for name, guard in GUARDS.items():
        for file, before, after in guard.changes:
            text = texts.get(file) or (ROOT / file).read_text()
            if text.count(before) != 1:
                sys.exit(f"guards.py: {name}: its place in {file} is there {text.count(before)} times: {before.strip()[:60]}")
            texts[file] = text.replace(before, after.replace("OFF", f"GuardSwitch.{name}"))
    known = set(texts)
    for name in ("Package.swift", "Sources", "Tests", "bench"):
        for file in [ROOT / name] if (ROOT / name).is_file() else sorted((ROOT / name).rglob("*")):
            relative = str(file.relative_to(ROOT))
            if not file.is_file() or "__pycache__" in relative or relative.startswith("bench/out"):
                continue
            known.add(relative)
            if relative not in texts:
                write(COPY / relative, file.read_bytes())
    for name in ("Sources", "Tests", "bench"):
        for file in (COPY / name).rglob("*"):
            if file.is_file() and str(file.relative_to(COPY)) not in known:
                file.unlink()
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
