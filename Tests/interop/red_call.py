"""Redundant sound (RED) between two wrtc (libwebrtc) clients, the second one behind a link that loses 5 %."""
import asyncio
import pathlib
import re
import sys
import time

from relay import Relay, check, participant
from wrtc_client import WrtcClient

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lab"))

from link import Link, Profile  # noqa: E402

LOSS = 0.05
DELAY = 25  # one way, milliseconds
SECONDS = 20
SETTLE = 3


class Speaker(WrtcClient):
    """A tone and no picture. `red`: offers RED."""

    red = True

    def offered(self, sdp):
        return sdp if self.red else without_red(sdp)

    async def play_pictures(self):
        pass

    async def sound(self):
        """Samples concealed (those of silence apart) and samples in all; packets that came, and came together with others."""
        found = dict.fromkeys(("concealed", "samples", "packets", "repeats", "lost"), 0)
        for item in (await self.pc.get_stats()).values():
            if str(item.type) == "inbound-rtp" and item.kind == "audio":
                found["concealed"] += (item.concealed_samples or 0) - (item.silent_concealed_samples or 0)
                found["samples"] += item.total_samples_received or 0
                found["packets"] += item.packets_received or 0
                found["lost"] += item.packets_lost or 0
                found["repeats"] += item.fec_packets_received or 0
        return found


def without_red(sdp):
    """The same without audio RED, as a client writes it that has none."""
    number = re.search(r"^a=rtpmap:(\d+) red/48000/2\r?$", sdp, re.MULTILINE)[1]
    kept = [line for line in sdp.splitlines() if not re.match(rf"a=(rtpmap|fmtp|rtcp-fb):{number} ", line)]
    return "\r\n".join(
        re.sub(rf" {number}(?= |$)", "", line) if line.startswith("m=audio") else line for line in kept) + "\r\n"


class Call:
    """`lossy`: which ways of the second client's link lose, `up` (to the relay) and `down`."""

    def __init__(self, relay, first_red, second_red, lossy):
        self.relay = relay
        host, port = relay.media.rsplit(":", 1)
        ways = {way: {"delay": DELAY, "loss": LOSS if name in lossy else 0} for way, name in (("ab", "up"), ("ba", "down"))}
        self.link = Link(Profile("red", **ways), b_peer=(host, int(port)))
        room = relay.create_room(kind="peer", media="audio", red=True)
        self.first = Speaker(relay, room, "first", participant(room, "first"))
        self.second = Speaker(relay, room, "second", participant(room, "second"), proxy=self)
        self.first.red, self.second.red = first_red, second_red

    def rewritten(self, answer):
        return re.sub(
            r"^(a=candidate:\S+ \d+ \S+ \d+) (\S+) \d+ ",
            lambda found: f"{found[1]} 127.0.0.1 {self.link.ports['a']} ", answer, flags=re.MULTILINE)

    async def run(self, settle=0):
        """For each of both: what was heard in SECONDS, after `settle` seconds of loss."""
        clients = (self.first, self.second)
        for client in clients:
            await client.prepare()
        for client in clients:
            await client.join()
        for client in clients:
            await client.until(lambda totals: totals["audioPackets"] > 0, 5, "sound")
        await asyncio.sleep(SETTLE)
        self.link.begin()
        await asyncio.sleep(settle)
        before = [await client.sound() for client in clients]
        await asyncio.sleep(SECONDS)
        after = [await client.sound() for client in clients]
        await self.first.leave()
        await asyncio.gather(*(client.close() for client in clients))
        self.counters = self.link.end()
        heard = [{name: now[name] - then[name] for name in now} for then, now in zip(before, after)]
        for one in heard:
            one["percent"] = 100 * one["concealed"] / max(1, one["samples"])
            check(one["packets"] > 0.8 * 50 * SECONDS, f"too little sound: {heard}")
        return heard


def counted(relay, name):
    """A counter of the workers."""
    text = relay.admin("GET", "/metrics").expect(200).body.decode()
    return sum(int(count) for count in re.findall(rf"^media_relay_worker_{name}_total(?:{{[^}}]*}})? (\d+)$", text, re.MULTILINE))


def measured(first_red, second_red, lossy, settle=0):
    """What both heard, the link's counters, and what the relay counted."""
    with Relay() as relay:
        call = Call(relay, first_red, second_red, lossy)
        heard = asyncio.run(call.run(settle))
        time.sleep(3)  # workers tell their counters every few seconds
        return heard, call.counters, {
            name: counted(relay, name) for name in ("packets_made_redundant", "packets_recovered")}


def red_both_legs():
    """Both have RED, 5 % lost both ways: less than 1 % concealed on both sides from the first second on."""
    heard, link, counters = measured(True, True, ("up", "down"))
    check(link["ab"]["lost"] > 20 and link["ba"]["lost"] > 20, f"the link lost too little: {link}")
    for one in heard:
        check(one["percent"] < 1, f"{one['percent']:.2f} % concealed: {heard}, {link}, {counters}")
    check(counters["packets_recovered"] > 10, f"{counters}")
    return f"concealed {heard[0]['percent']:.2f} and {heard[1]['percent']:.2f} %; {counters}; {link['ab']['lost']} + {link['ba']['lost']} lost"


def red_added():
    """The sender has no RED, the receiver has and loses 5 %: the relay adds it, once reports have told. Without it beside."""
    plain, _, none = measured(False, False, ("down",), settle=12)
    check(none["packets_made_redundant"] == 0, f"RED for a client without: {none}")
    heard, link, counters = measured(False, True, ("down",), settle=12)
    check(counters["packets_made_redundant"] > 0.9 * 50 * SECONDS, f"the relay added {counters}")
    check(heard[1]["percent"] < 1, f"{heard[1]['percent']:.2f} % concealed: {heard}, {link}, {counters}")
    return f"concealed {heard[1]['percent']:.2f} % ({plain[1]['percent']:.2f} % without RED); {counters}; {link['ba']['lost']} lost"


def red_stripped():
    """The sender has RED and loses 5 % on its way up, the receiver has none: it gets the lost packets from the relay, one packet
    later than they were due. What its jitter buffer did not wait for is concealed."""
    heard, link, counters = measured(False, True, ("up",))
    check(link["ab"]["lost"] > 20, f"the link lost too little: {link}")
    check(counters["packets_recovered"] > 0.7 * link["ab"]["lost"] * 0.9, f"{counters}, {link}")
    check(heard[0]["percent"] < 2, f"{heard[0]['percent']:.2f} % concealed: {heard}, {link}, {counters}")
    check(heard[0]["lost"] <= 5, f"its numbers have gaps: {heard}")
    return f"concealed {heard[0]['percent']:.2f} %; {counters}; {link['ab']['lost']} lost"
