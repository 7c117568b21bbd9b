"""The catalogue of threats and faults, T01 to T110: what is run against a relay here, which other test holds an entry, and why.

An entry without an attack names the tests that hold it. `check_names` looks for each of them in the sources, so that no name outlives
its test.
"""
import api_attacks as api
import handshake_attacks as handshake
import media_attacks as media
import session_attacks as session
import token_attacks as tokens
from relay import ROOT


class Entry:
    """`attacks` run here, in order. `tests`: (file or folder under the project, words of the test's name). `reason`: why not here."""

    def __init__(self, number, title, *attacks, tests=(), reason=None):
        self.number, self.title, self.attacks, self.tests, self.reason = number, title, attacks, tests, reason


SCENARIO, CORE, NODE, HTTP, WIRE = (
    "Tests/RelayScenarioTests", "Tests/RelayCoreTests", "Tests/MediaRelayTests", "Tests/RelayHTTPTests", "Tests/RTPCoreTests")
INTEROP, LOAD = "Tests/interop/run.py", "bench/RelayLoad"

CATALOGUE = [
    Entry("T01", "first byte", media.first_bytes),
    Entry("T02", "STUN parser", media.stun_parser),
    Entry("T03", "RTP header", media.media_strangers, session.malformed_media),
    Entry("T04", "RTCP", tests=[(SCENARIO, "malformed RTCP that is authentic harms nobody")], reason="sent with T03"),
    Entry("T05", "short packets", session.short_packets),
    Entry("T06", "payload looked at without need", session.unreadable_payloads),
    Entry("T07", "Swift traps", tests=[(INTEROP, "worker_segv"), (NODE, "a worker that crashes by a trap's signal is replaced")],
          reason="a fault, not a datagram"),
    Entry("T10", "STUN reflection", media.stun_reflection),
    Entry("T11", "state per source", media.state_per_source, media.media_connections),
    Entry("T12", "partial checks", media.partial_checks),
    Entry("T13", "a failed check harms nobody", media.failed_checks),
    Entry("T14", "role conflict", media.role_conflict),
    Entry("T15", "latching", media.latching),
    Entry("T16", "media aimed at a third", media.aimed_media),
    Entry("T17", "consent", tests=[(SCENARIO, "after 30 s of silence it is lost, told once"), (
        SCENARIO, "a silent client is interrupted after 5 s, recovers")], reason="takes 30 s of silence: in virtual time"),
    Entry("T18", "path change", tests=[(INTEROP, "rebinding_wrtc"), (SCENARIO, "two paths that alternate switch at most once a second")],
          reason="no attack; a client's network"),
    Entry("T19", "tuple exhaustion", media.many_tuples),
    Entry("T20", "ICE credentials", tests=[
        (CORE, "drawn credentials use the whole alphabet evenly and never come twice"),
        (SCENARIO, "credentials of before an ICE restart are good from the selected address only")],
        reason="drawn, not sent; 144 random bits of password"),
    Entry("T21", "processor time by hashes", media.hash_flood),
    Entry("T30", "ClientHello race", handshake.hello_race, media.dtls_strangers),
    Entry("T31", "DTLS amplification", media.silent_handshake),
    Entry("T32", "one packet kills a handshake", handshake.hello_neighbours),
    Entry("T33", "handshake memory", handshake.handshake_memory),
    Entry("T34", "fingerprint", handshake.wrong_fingerprint),
    Entry("T35", "certificate without its key", tests=[
        (CORE, "somebody else's certificate without its key is not let in"), (CORE, "a client without a certificate is not let in")],
        reason="no client library sends it"),
    Entry("T36", "downgrade", handshake.no_protection),
    Entry("T37", "plaintext after the handshake", handshake.plaintext),
    Entry("T38", "two-time pad", tests=[
        (SCENARIO, "a sender that restarts its numbers goes on without a break"), (SCENARIO, "keys, numbers and SSRCs stay over a move")],
        reason="what the relay sends, not what it gets"),
    Entry("T39", "new association on an old path", tests=[(SCENARIO, "a client that comes again from the same port gets its own session")],
          reason="in virtual time"),
    Entry("T40", "certificates that cost", handshake.costly_certificate),
    Entry("T50", "injection", session.injection),
    Entry("T51", "error thresholds", tests=[(SCENARIO, "10,000 forged packets a second in a client's name cost it none of its own")],
          reason="sent with T13"),
    Entry("T52", "replay", session.replay),
    Entry("T53", "rollover desync", tests=[(SCENARIO, "the sender's rollover over 65535 is invisible to the receiver"),
                                          (CORE, "a whole cycle lost looks like replays first and recovers")], reason="takes 22 min: in virtual time"),
    Entry("T54", "SSRC hijack and floods", session.source_flood),
    Entry("T55", "RTCP as a weapon", session.feedback_storm),
    Entry("T56", "flood by a legitimate user", session.legitimate_flood),
    Entry("T57", "header extensions", tests=[(SCENARIO, "the audio level passes under the receiver's own id, hop-by-hop elements do not pass")],
          reason="sent with T03"),
    Entry("T58", "RTX and RED", tests=[(SCENARIO, "RED that does not end, overruns or carries another kind of block is dropped"),
                                       (WIRE, "RTX")], reason="needs a room with RED: in virtual time"),
    Entry("T59", "padding probes", tests=[(SCENARIO, "padding probes, on RTX or on the media's own SSRC, are not forwarded and leave no gap")],
          reason="in virtual time"),
    Entry("T60", "stream oddities", tests=[(SCENARIO, "a client that is muted for ten minutes comes back in time"),
                                           (SCENARIO, "an SSRC change in mid-call goes on")], reason="in virtual time"),
    Entry("T70", "media before the answer", session.before_the_answer),
    Entry("T71", "races at the edges", tests=[(CORE, "BoundaryTests"), (LOAD, "CrossingsScenario")], reason="needs exact times; make soak"),
    Entry("T72", "tokens", tokens.tokens),
    Entry("T73", "identity from the session", tokens.identities),
    Entry("T74", "fail-open defaults", tokens.open_doors),
    Entry("T75", "enumeration", tokens.guessing),
    Entry("T76", "state exhaustion by users", tokens.too_many_sessions),
    Entry("T77", "one bad message", api.bodies),
    Entry("T80", "request smuggling", api.framing),
    Entry("T81", "slow clients", api.slow_clients),
    Entry("T82", "limits", api.limits),
    Entry("T83", "response splitting, log forging", api.splitting),
    Entry("T84", "JSON", tests=[(NODE, "what Foundation would let pass is refused"), (NODE, "32 levels are read and 33 are refused")],
          reason="sent with T77"),
    Entry("T85", "timing of comparisons", tests=[(CORE, "a comparison sees a difference in any byte")],
          reason="loopback hides nanoseconds; CRYPTO_memcmp everywhere"),
    Entry("T86", "webhooks inwards", tests=[(NODE, "only public and private addresses are connected to, whatever their spelling"),
                                            (NODE, "a redirect is a refusal")], reason="URLs are the operator's, not the network's"),
    Entry("T87", "webhook back-pressure", tests=[
        (NODE, "an endpoint that cannot be reached is tried with one event at a time, with growing waits, and costs no memory")],
        reason="the operator's endpoint; in virtual time"),
    Entry("T88", "secrets", api.secrets),
    Entry("T89", "listeners", api.listeners),
    Entry("T100", "overload", tests=[
        (CORE, "a new room is 503 with Retry-After while the worker is over its bound"), (LOAD, "OverloadScenario"),
        (HTTP, "connections beyond the limit are told 503")], reason="legitimate load; make test-load"),
    Entry("T101", "socket buffers", media.burst),
    Entry("T102", "send errors", tests=[
        (NODE, "an unreachable receiver is counted, and the others still get theirs"),
        (NODE, "what had to wait leaves whole, sound first, then pictures, then repairs")],
          reason="the operator's network"),
    Entry("T103", "descriptors and memory", tests=[("Tests/attack", "out_of_descriptors"),
                                                   (HTTP, "without descriptors the server turns connections away")], reason="make faults"),
    Entry("T104", "clocks", tests=[("Tests/attack", "clock_steps")], reason="make faults"),
    Entry("T105", "crash", tests=[(INTEROP, "control_kill"), (LOAD, "KillScenario")], reason="make faults, make soak"),
    Entry("T106", "drain", tests=[("Tests/attack", "control_stop")], reason="make faults"),
    Entry("T107", "one room beside another", session.stalled_neighbour),
    Entry("T108", "a bad network", tests=[("Tests/SimulationTests", "two people per room on a very bad network"), (INTEROP, "wrtc_call_loss")],
          reason="make lab"),
    Entry("T109", "long life", tests=[(LOAD, "SoakScenario"), (LOAD, "MemoryScenario"), (SCENARIO, "a thousand transports come and go and leave nothing behind")],
          reason="make soak"),
    Entry("T110", "races of threads", tests=[(NODE, "what other threads post all arrives")],
          reason="one owner a state, values between threads; no network entry"),
]


def check_names():
    """Names of tests in the catalogue that are in no source."""
    missing = []
    for entry in CATALOGUE:
        for place, words in entry.tests:
            path = ROOT / place
            files = [path] if path.is_file() else [one for one in path.rglob("*") if one.suffix in (".swift", ".py")]
            if not any(words in file.read_text(errors="replace") or words in file.stem for file in files):
                missing.append(f"{entry.number}: {place}: {words}")
    return missing


TABLE = ROOT / "docs/attacks.md"


def table():
    """The catalogue as docs/attacks.md has it: what is sent for an entry here, or who holds it and why it is not sent."""
    from guards import GUARDS
    proven = {}
    for name, guard in GUARDS.items():
        for number in guard.entries:
            proven.setdefault(number, []).append(f"`{name}`")
    lines = [
        "# The catalogue of threats and faults, and what holds each", "",
        "Made by `Tests/attack/attack.py --table` from Tests/attack/catalogue.py: change that file. `make attack` sends what stands under",
        "*sent* to a relay with a live call; what is not sent is held by the tests that are named, for the reason that is given. *Guard*: with",
        "this one off (`make attack GUARD=NAME`) the entry must fail.", "",
        "| entry | threat or fault | sent | otherwise held by | guard |", "|---|---|---|---|---|"]
    for entry in CATALOGUE:
        sent = "; ".join(attack.__doc__.strip().splitlines()[0].replace("|", "/") for attack in entry.attacks) or f"no: {entry.reason}"
        held = "; ".join(f"{words} ({place.split('/')[-1]})" for place, words in entry.tests)
        lines.append(f"| {entry.number} | {entry.title} | {sent} | {held} | {', '.join(proven.get(entry.number, []))} |")
    return "\n".join(lines) + "\n"


def check_table():
    """What is wrong with the table or the catalogue's numbers."""
    wrong = [] if TABLE.exists() and TABLE.read_text() == table() else [f"{TABLE.name} is not the catalogue's: attack.py --table"]
    numbers = [f"T{first + index:02}" for first, count in (
        (1, 7), (10, 12), (30, 11), (50, 11), (70, 8), (80, 10), (100, 11)) for index in range(count)]
    if [entry.number for entry in CATALOGUE] != numbers:
        wrong.append(f"the catalogue has other entries than {numbers[0]} to {numbers[-1]}")
    for entry in CATALOGUE:
        if not entry.attacks and not (entry.tests and entry.reason):
            wrong.append(f"{entry.number} has neither an attack nor a test with a reason")
    return wrong
