"""Networks that have no UDP, and networks that change in the middle of a call: another port by a NAT, another way, another
ICE generation. UDP is blocked by a routing rule of the test's own namespace.
"""
import asyncio
import pathlib
import subprocess
import sys
import time

from browser import Reports, chromium, firefox, open_tab
from browser_call import check_ends, check_report, summary
from loss_proxy import LossGate
from relay import Relay, check, check_end, check_order, participant
from wrtc_client import WrtcClient

PORT = 40000
# Longest pause after a change: the next check of the client, or the silence that the relay waits for.
PATIENCE = 9
# Datagrams of a client that sends sound and picture on a path, not only checks.
BUSY = 200


def block_udp():
    """From now on no datagram reaches the relay's port or leaves it; who tries is told that it is prohibited."""
    for end in ("dport", "sport"):
        ip_rule("add", "pref", "10", "ipproto", "udp", end, str(PORT), "prohibit")
    # Local addresses are looked up before any other rule, unless that is moved behind.
    ip_rule("add", "pref", "100", "lookup", "local")
    ip_rule("del", "pref", "0")


def allow_udp():
    for _ in range(2):
        ip_rule("del", "pref", "10")


def ip_rule(*arguments):
    subprocess.run(["ip", "rule", *arguments], check=True)


def counters(relay, *names):
    """Counters of the only worker, by name without `_total`."""
    text = relay.admin("GET", "/metrics").expect(200).body.decode()
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            found[name.removeprefix("media_relay_worker_")] = float(value)
    return [found.get(f'{name}_total{{worker="0"}}', found.get(f'{name}{{worker="0"}}', 0)) for name in names]


async def pair(relay, make=WrtcClient):
    room = relay.create_room(kind="peer", media="video")
    clients = [make(relay, room, uid, participant(room, uid)) for uid in ("alice", "bob")]
    await asyncio.gather(*(client.prepare() for client in clients))
    for client in clients:
        await client.join()
    for client in clients:
        await client.until(lambda totals: totals["framesDecoded"] > 0 and totals["audioPackets"] > 0, 5, "media")
    return room, clients


async def goes_on(clients, seconds, what):
    """Waits until everybody hears and sees again as before; returns how long the longest pause was."""
    before = [await client.totals() for client in clients]

    def again(start):
        return lambda now: (
            now["audioPackets"] > start["audioPackets"] + 75 and now["framesDecoded"] > start["framesDecoded"] + 20)

    took = [await client.until(again(start), seconds + 3, f"media after {what}") for client, start in zip(clients, before)]
    return max(took)


async def hang_up(relay, room, clients):
    await clients[0].leave()
    relay.await_event("room.closed", room, 2)
    check_order(relay.events())
    check_end(relay.events(room=room), "alice", "bob")
    await asyncio.gather(*(client.close() for client in clients))


async def without_udp(relay):
    room, clients = await pair(relay)
    before = [await client.totals() for client in clients]
    await asyncio.sleep(5)
    for client, start in zip(clients, before):
        totals = await client.totals()
        check(await client.protocol() == "tcp", f"{client.uid} speaks {await client.protocol()}")
        check(totals["framesDecoded"] > start["framesDecoded"] + 60, f"{client.uid} saw too little: {totals}")
        check(totals["audioPackets"] > start["audioPackets"] + 200, f"{client.uid} heard too little: {totals}")
        check(totals["lost"] == 0 and totals["audioEnergy"] > 0, f"{client.uid} heard {totals}")
    connections, frames = counters(relay, "stream_connections", "stream_frames_received")
    check(connections == 2 and frames > 300, f"the worker counts {connections} connections and {frames} frames")
    connect = max(client.connect_seconds for client in clients)
    await hang_up(relay, room, clients)
    return f"connected within {connect * 1000:.0f} ms"


def tcp_wrtc():
    """Two libwebrtc clients where no datagram passes: a call like any other, over TCP."""
    block_udp()
    with Relay() as relay:
        return asyncio.run(without_udp(relay))


def browsers_over_tcp(relay, other, seconds=8):
    block_udp()
    reports = Reports()
    addresses = [reports.page(relay, "try", "Ada", seconds, leave=True), reports.page(relay, "try", "Grace", seconds)]
    with other(addresses[0]):
        if other is chromium:
            open_tab(addresses[1])
            first, second = reports.wait(["Ada", "Grace"], 80)
        else:
            with chromium(addresses[1]):
                first, second = reports.wait(["Ada", "Grace"], 100)
    reports.stop()
    for report in (first, second):
        check_report(report, seconds, report["name"], frames=seconds * 8)
    check_ends(relay, first["room"], first, second)
    return summary([first, second])


def tcp_chromium():
    with Relay() as relay:
        return browsers_over_tcp(relay, chromium)


def tcp_firefox():
    """Firefox and Chromium, both without UDP."""
    with Relay(media=f"10.99.0.1:{PORT}") as relay:
        return browsers_over_tcp(relay, firefox)


async def other_ways(relay, make=WrtcClient):
    room, clients = await pair(relay, make)
    alice, bob = clients
    check([await client.protocol() for client in clients] == ["udp", "udp"], "a call takes TCP where UDP works")
    await alice.restart()
    restart = await goes_on(clients, 3, "an ICE restart")
    block_udp()
    await asyncio.sleep(0.5)
    await asyncio.gather(alice.restart(), bob.restart())
    to_tcp = await goes_on(clients, PATIENCE, "the way from UDP to TCP")
    check([await client.protocol() for client in clients] == ["tcp", "tcp"], "media goes on over UDP, which is blocked")
    allow_udp()
    await alice.restart()
    to_udp = await goes_on(clients, PATIENCE, "the way from TCP to UDP")
    check(await alice.protocol() == "udp", "after its ICE restart alice stays on TCP, though UDP works")
    await hang_up(relay, room, clients)
    return f"media again {restart:.1f} s after a restart, {to_tcp:.1f} s to TCP, {to_udp:.1f} s back to UDP"


def wrtc_ways():
    """libwebrtc in one call: an ICE restart, UDP is lost and TCP takes over, UDP comes back."""
    with Relay() as relay:
        return asyncio.run(other_ways(relay))


class TabClient:
    """A client in a tab of Chromium (Tests/lab), with the verbs of WrtcClient."""

    def __init__(self, tab, relay, room, uid, bearer):
        self.tab, self.relay, self.room, self.uid, self.bearer = tab, relay, room, uid, bearer

    async def prepare(self):
        offer = await self.tab.offer()
        self.location, self.answer = await asyncio.to_thread(self.relay.prepare, self.room, self.bearer, offer)
        await self.tab.accept(self.answer)
        await self.tab.connected()

    async def join(self):
        (await asyncio.to_thread(self.relay.ask, "POST", self.location + "/join", None, self.bearer)).expect(200)

    async def restart(self):
        offer = await self.tab.offer(True)
        self.answer = await asyncio.to_thread(self.relay.restart, self.location, self.bearer, offer, self.answer)
        await self.tab.accept(self.answer)

    async def protocol(self):
        return await self.tab.protocol()

    async def totals(self):
        found = await self.tab.sample()
        return {"framesDecoded": found["frames"], "audioPackets": found["audioPackets"]}

    until = WrtcClient.until

    async def leave(self):
        (await asyncio.to_thread(self.relay.ask, "DELETE", self.location, None, self.bearer)).expect(200)

    async def close(self):
        await self.tab.close()


def chromium_ways():
    """The same in two tabs of Chromium."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lab"))
    from chromium import Window

    window = Window(["alice", "bob"])
    tabs = dict(zip(("alice", "bob"), window.peers))
    try:
        with Relay() as relay:
            return asyncio.run(other_ways(relay, lambda relay, room, uid, bearer: TabClient(tabs[uid], relay, room, uid, bearer)))
    finally:
        window.stop()


def gated(announce, media):
    """A relay behind a NAT of the test, without TCP, which would be a way around it."""
    relay = Relay(media=f"{media}:{PORT}", announce=[announce], options=["--media-tcp", "off"])
    gate = LossGate((announce, PORT), (media, PORT), 0, seed=1)
    gate.is_lossy = False
    return relay, gate


async def rebound(relay, gate):
    room, clients = await pair(relay)
    pauses = []
    for _ in range(2):
        await asyncio.sleep(1.2)
        gate.rebind()
        pauses.append(await goes_on(clients, PATIENCE, "a rebinding"))
    changes = [event["uid"] for event in relay.events(room=room) if event["type"] == "participant.path-changed"]
    check(set(changes) == {"alice", "bob"}, f"the path of {changes} is told to have changed")
    states = [event["type"] for event in relay.events(room=room)]
    check("participant.interrupted" not in states, f"somebody was interrupted: {states}")
    await hang_up(relay, room, clients)
    return "media again after " + ", ".join(f"{pause - 1.5:.1f} s" for pause in pauses)


def rebinding_wrtc():
    relay, gate = gated("127.0.0.2", "127.0.0.1")
    with relay:
        try:
            return asyncio.run(rebound(relay, gate))
        finally:
            gate.stop()


async def rebound_aiortc(relay, gate):
    from aiortc_call import Client

    room = relay.create_room(kind="peer", media="video")
    clients = [Client(relay, room, uid) for uid in ("alice", "bob")]
    await asyncio.gather(*(client.prepare() for client in clients))
    for client in clients:
        await client.ask("POST", client.location + "/join")
    await asyncio.sleep(2)
    gate.rebind()
    rebound = time.monotonic()
    start = [dict(client.frames) for client in clients]
    while True:
        if all(client.frames["audio"] > was["audio"] + 75 for client, was in zip(clients, start)):
            break
        pause = time.monotonic() - rebound
        check(pause < PATIENCE + 3, f"{pause:.1f} s after the rebinding: {[client.frames for client in clients]}, {start}")
        await asyncio.sleep(0.05)
    pause = time.monotonic() - rebound
    await clients[0].ask("DELETE", clients[0].location)
    relay.await_event("room.closed", room, 2)
    await asyncio.gather(*(client.close() for client in clients))
    return f"media again after {pause - 1.5:.1f} s"


def rebinding_aiortc():
    """aiortc nominates its pair once; its later checks only show where it is now. Its picture stands for 512 packets more:
    so long it waits for the packets that nobody has any more.
    """
    relay, gate = gated("10.99.0.9", "10.99.0.1")
    with relay:
        try:
            return asyncio.run(rebound_aiortc(relay, gate))
        finally:
            gate.stop()


def longest_pause(report):
    """The longest time without a packet of sound between two samples, in seconds."""
    longest, last = 0, report["samples"][0]
    for sample in report["samples"]:
        longest = max(longest, sample["atMs"] - last["atMs"])
        if sample["audioPacketsReceived"] > last["audioPacketsReceived"]:
            last = sample
    return longest / 1000


def browsers_move(seconds, change, patience):
    """A call of Firefox and Chromium; `change` is done to the gate in the middle. Returns the pauses of both, the changes of
    path that were told, and what `change` gave.
    """
    relay, gate = gated("10.99.0.9", "10.99.0.1")
    with relay:
        reports = Reports()
        with firefox(reports.page(relay, "try", "Ada", seconds, leave=True)):
            with chromium(reports.page(relay, "try", "Grace", seconds)):
                for name in ("Ada", "Grace"):
                    relay.await_event("participant.joined", None, 60, uid=name)
                time.sleep(3)
                result = change(gate)
                found = reports.wait(["Ada", "Grace"], seconds + 60)
        reports.stop()
        gate.stop()
        pauses = [longest_pause(report) for report in found]
        for report, pause in zip(found, pauses):
            check(report["error"] is None, f"{report['name']}: {report['error']}; {report['problems']}")
            check(pause < patience, f"{report['name']} heard nothing for {pause:.1f} s")
            late = [one for one in report["samples"] if one["atMs"] > report["samples"][-1]["atMs"] - 2000]
            heard = late[-1]["audioPacketsReceived"] - late[0]["audioPacketsReceived"]
            check(heard > 60, f"{report['name']} heard {heard} packets in the last 2 s")
            seen = late[-1]["framesDecoded"] - late[0]["framesDecoded"]
            check(seen > 10, f"{report['name']} saw {seen} frames in the last 2 s")
        events = relay.events(room=found[0]["room"])
        check_ends(relay, found[0]["room"], *found)
        return pauses, [event for event in events if event["type"] == "participant.path-changed"], result


def rebinding_browsers():
    """Firefox and Chromium get other ports by their NAT in the middle of a call."""
    pauses, changes, _ = browsers_move(16, lambda gate: gate.rebind(), PATIENCE)
    check({event["uid"] for event in changes} == {"Ada", "Grace"}, f"paths changed: {changes}")
    return f"Firefox heard nothing for {pauses[0]:.1f} s, Chromium for {pauses[1]:.1f} s"


def outage(gate):
    """Returns a look at what went up since its end: for each flow that was there before it and for each later one."""
    earlier = list(gate.flows.values())
    gate.is_open = False
    time.sleep(13)
    gate.rebind()
    gate.is_open = True
    start = {flow.client: flow.passed["up"] for flow in earlier}

    def since():
        passed = {flow: flow.passed["up"] - start.get(flow.client, 0) for flow in list(gate.flows.values())}
        return [passed[flow] for flow in earlier], [passed[flow] for flow in passed if flow not in earlier]

    return since


def restart_browsers():
    """Nothing passes for 13 s, then from other ports: both browsers' pages restart ICE by themselves, and the call goes on.

    Each ICE generation has ports of its own. A browser may go over from one of its new pairs to another: more than two
    flows may be busy, but none from before the outage.
    """
    pauses, _, since = browsers_move(34, outage, 24)
    earlier, later = since()
    check(all(count < BUSY for count in earlier), f"a browser stayed on its first ports: {earlier} datagrams, {later}")
    check(sum(count > BUSY for count in later) >= 2, f"not both browsers go on from new ports: {later} datagrams")
    return f"an outage of 13 s; Firefox heard nothing for {pauses[0]:.1f} s, Chromium for {pauses[1]:.1f} s"
