"""What every attack runs against: one relay, one live call (the victims) and the common pass line of the catalogue.

The line: the same processes; the victims' sound without a gap beyond normal and nothing of it lost; bounded memory; no byte to the
attacker where none is right; the named drop counters rose by exactly what was sent. Secrets in the logs are looked for at the end.
"""
import asyncio
import os
import pathlib
import re
import socket
import time

import flood
import stun
from peer import credentials, payload_types
from relay import ROOT, Relay, check, participant
from victims import Victims
from wire import Wire, percentile

GAP = 0.2               # seconds between two audio packets of the victims
STEADY = 1.1            # how much longer the 99th percentile of those times may be under an attack of some seconds
GROWTH = 1024           # KiB that an attack may leave in a process
COUNTERS_LATE = 6.0     # workers tell their counters every 2 s


class Sent:
    """What an attack did. `counted`: the reasons that must together have risen by `datagrams`. `answers`: bytes that may go to
    others than the victims for each byte received from them; 0: none. `faults`: what its own checks found; `soft`: what
    may be a busy machine's."""

    def __init__(self, datagrams=0, counted=(), answers=None, note="", faults=(), received=0, growth=GROWTH, exact=True, soft=()):
        self.datagrams, self.counted, self.answers, self.note = datagrams, tuple(counted), answers, note
        self.faults, self.soft, self.received, self.growth, self.exact = list(faults), list(soft), received, growth, exact


class Scene:
    def __init__(self, relay, is_long):
        self.relay, self.is_long = relay, is_long
        host, port = relay.media.rsplit(":", 1)
        self.target = (host, int(port))
        self.secrets = []
        # The 99th percentile of the times between a victim's packets while nobody attacks, seconds.
        self.quiet = 0.0

    @classmethod
    async def start(cls, relay, is_long):
        scene = cls(relay, is_long)
        scene.room = relay.create_room(kind="peer", media="video")
        scene.victims = await Victims.start(relay, scene.room)
        scene.wire = Wire(scene.target[1], payload_types(scene.victims.clients[0]["answer"])["audio"])
        for client in scene.victims.clients:
            scene.secrets += [credentials(client["offer"])[1], credentials(client["answer"])[1], client["bearer"]]
        # Until both victims' addresses are known by their checks.
        until = time.monotonic() + 10
        while len(scene.wire.ports) < 2:
            check(time.monotonic() < until, "no check of the victims was seen on the wire")
            await asyncio.sleep(0.1)
        scene.processes = scene.pids()
        scene.counters = scene.read_counters()
        return scene

    # What can be aimed at.

    def victim(self, index=0):
        """A victim's address, and user name and password of checks in its name."""
        client = self.victims.clients[index]
        own, (theirs, password) = credentials(client["offer"])[0], credentials(client["answer"])
        return ("127.0.0.1", self.wire.ports[own]), f"{theirs}:{own}", password

    def stranger_socket(self, address="127.0.0.66", port=0):
        end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        end.bind((address, port))
        end.setblocking(False)
        return end

    def count(self, long):
        """How many datagrams a flood has: a million in the long form."""
        return long if self.is_long else min(long, 20_000)

    async def flood(self, payloads, count=None, rate=50_000, sources=None):
        """Sends payloads in turn from strangers without end, or from one address; returns how many left."""
        draw = flood.strangers() if sources is None else iter(lambda: sources, None)
        packets = [flood.packet(payload, next(draw), self.target) for payload in payloads]
        sent, self.flood_seconds = await flood.run(packets, rate, count or len(packets))
        return sent

    # The relay's processes and numbers.

    def pids(self):
        found = [self.relay.process.pid, *self.relay.worker_pids()]
        return [(pid, pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]) for pid in found]

    def memory(self):
        """Anonymous memory of control and worker, KiB."""
        found = []
        for pid, _ in self.processes:
            text = pathlib.Path(f"/proc/{pid}/status").read_text()
            found.append(int(re.search(r"^RssAnon:\s+(\d+)", text, re.MULTILINE)[1]))
        return found

    def worker_seconds(self):
        """Processor time of the worker."""
        fields = pathlib.Path(f"/proc/{self.processes[1][0]}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def descriptors(self):
        """Of the worker."""
        return len(os.listdir(f"/proc/{self.processes[1][0]}/fd"))

    def read_counters(self):
        text = self.relay.admin("GET", "/metrics").expect(200).body.decode()
        found = {}
        for name, label, value in re.findall(
                r'^media_relay_worker_(\w+?)(?:_total)?\{worker="\d+"(?:,\w+="([^"]+)")?\} (\d+)$', text, re.MULTILINE):
            found[label or name] = found.get(label or name, 0) + int(value)
        return found

    def risen(self, reasons):
        return sum(self.latest.get(reason, 0) - self.counters.get(reason, 0) for reason in reasons)

    async def settle(self, sent):
        """Waits until the named counters have risen by what was sent, or no longer rise."""
        until = time.monotonic() + COUNTERS_LATE
        while True:
            self.latest = await asyncio.to_thread(self.read_counters)
            if not sent.counted or self.risen((*sent.counted, "receive_overflows")) >= sent.datagrams:
                return
            if time.monotonic() > until:
                return
            await asyncio.sleep(0.1)

    # One attack and what is to be said of it.

    async def trial(self, attack):
        """Runs an attack; a dictionary of what was seen and the list of what was wrong."""
        memory, before, others = self.memory(), await self.victims.totals(), self.wire.to_others()
        descriptors = self.descriptors()
        began, cpu = time.time(), self.worker_seconds()
        sent = await attack(self)
        faults = list(sent.faults)
        ended, cpu = time.time(), self.worker_seconds() - cpu
        await asyncio.sleep(0.1)
        await self.settle(sent)
        self.wire_until = min(time.time(), ended + 0.3)
        if self.pids() != self.processes:
            faults.append(f"the processes are {self.pids()}, they were {self.processes}")
            raise Died("; ".join(faults))
        gap, own, packets = self.wire.gap(began, self.wire_until)
        after = await self.victims.totals()
        lost = sum(now["lost"] - then["lost"] for then, now in zip(before, after))
        growth = [now - then for then, now in zip(memory, self.memory())]
        delays = self.wire.delays(began, self.wire_until)
        answered = sum((self.wire.to_others() - others).values())
        soft = list(sent.soft)
        # What a victim did not send in time, on a busy machine, the relay cannot have delayed.
        if gap > max(GAP, own + GAP / 2):
            soft.append(f"a victim's sound paused for {gap * 1000:.0f} ms, what the other one sent for {own * 1000:.0f} ms")
        if self.wire_until - began > 0.5 and packets < 60 * (self.wire_until - began):
            soft.append(f"{packets} audio packets reached the victims in {self.wire_until - began:.1f} s")
        steady, sent_steady = self.wire.gaps(began, self.wire_until)
        if self.wire_until - began > 5 and steady > STEADY * max(self.quiet, sent_steady):
            soft.append(f"p99 of the times between a victim's packets is {steady * 1000:.1f} ms, of what was sent {sent_steady * 1000:.1f}"
                        f" ms, in quiet {self.quiet * 1000:.1f} ms")
        if lost > 2:
            soft.append(f"the victims lost {lost} packets")
        if max(growth) > sent.growth:
            faults.append(f"memory grew by {growth} KiB")
        if self.descriptors() > descriptors:
            faults.append(f"the worker has {self.descriptors()} descriptors, it had {descriptors}")
        if sent.answers is not None and answered > sent.answers * sent.received:
            faults.append(f"{answered} bytes went to the attackers, who had sent {sent.received} that may be answered")
        overflows = self.risen(["receive_overflows"])
        if sent.counted:
            counted = self.risen(sent.counted)
            # Overflows are anybody's. In a victim's name a few go further than the counters: to OpenSSL, which drops in silence.
            least = sent.datagrams if sent.exact else 0.97 * sent.datagrams
            if counted + overflows < least or (sent.exact and counted > sent.datagrams):
                names = {reason: self.risen([reason]) for reason in sent.counted if self.risen([reason])}
                faults.append(f"{counted} drops were counted for {sent.datagrams} datagrams: {names}, overflows {overflows}")
        self.counters = self.latest
        return {
            "sent": sent.datagrams, "answered": answered, "gap": gap, "steady": steady, "lost": lost, "growth": max(growth), "cpu": cpu,
            "seconds": ended - began, "delay": percentile(delays, 0.99), "overflows": overflows, "note": sent.note,
        }, faults, soft

    async def stop(self):
        await self.victims.stop()
        self.wire.stop()


class Died(Exception):
    """A process of the relay is gone: nothing more can be tried on it."""


OFFER = ROOT / "Tests/Fixtures/sdp/chromium-plain.sdp"


class RawSession:
    """A participant that is nothing but a UDP socket: it knows its credentials and does only what it is told."""

    def __init__(self, scene, address="127.0.0.71", uid="raw", room=None, change=lambda sdp: sdp):
        self.scene = scene
        self.room = room or scene.relay.create_room(kind="peer", media="video")
        self.bearer = participant(self.room, uid)
        self.fragment, self.own_password = os.urandom(4).hex(), os.urandom(12).hex()
        offer = OFFER.read_bytes().decode()
        offer = re.sub(r"^(a=ice-ufrag:).*?(\r?)$", rf"\g<1>{self.fragment}\2", offer, flags=re.MULTILINE)
        offer = re.sub(r"^(a=ice-pwd:).*?(\r?)$", rf"\g<1>{self.own_password}\2", offer, flags=re.MULTILINE)
        self.location, self.answer = scene.relay.prepare(self.room, self.bearer, change(offer))
        theirs, self.password = credentials(self.answer)
        self.username = f"{theirs}:{self.fragment}"
        self.theirs = theirs
        scene.secrets += [self.password, self.own_password, self.bearer]
        self.socket = scene.stranger_socket(address)
        self.socket.connect(scene.target)
        self.address = self.socket.getsockname()

    def check(self, **options):
        return stun.check(self.username, self.password, **options)

    async def ask(self, data, seconds=0.5):
        """Sends a datagram and gives the answer to it (requests of the relay's are passed over), or None."""
        self.socket.send(data)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                answer = self.socket.recv(2048)
            except BlockingIOError:
                await asyncio.sleep(0.005)
                continue
            except ConnectionRefusedError:
                continue
            if stun.kind(answer) in (stun.SUCCESS, stun.FAILURE) and answer[8:20] == data[8:20]:
                return answer
        return None

    def close(self):
        self.socket.close()
        self.scene.relay.ask("DELETE", self.location, None, self.bearer)


def new_relay(workers=1, options=()):
    # A flood is load: whoever comes in the middle of one would be refused, and what it does to them not be seen.
    return Relay(http="127.0.0.1:8080", media="127.0.0.1:40000", workers=workers, options=["--admission", "off", *options])
