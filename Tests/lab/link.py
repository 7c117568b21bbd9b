#!/usr/bin/env python3
"""An emulated network link between two UDP ends, in user space: loss, bursts, rate with a queue, delay, jitter, reordering.

Two sockets, `a` and `b`: what comes to one leaves from the other, so each end sees the link's socket as its peer. Ends are
learned from their first datagram, or given. A client with addresses in several networks has a way and a socket `b` for each, so
that the other end sees it move when the client does. Seeded: the same datagrams meet the same fate in every run; and packets of
sound have draws of their own, so that of two calls side by side, whose pictures differ, the same ones are lost. The kernels that we
test on have no netem, so this is done here.

As a program: `link.py PROFILE ENDS` as JSON (see `Profile`, `Link`); prints one line of JSON with the ports, takes the commands
`begin` (the profile's clock starts; before it the link has its delay and nothing else) and `end` on its input, and prints its
counters at the end.
"""
import dataclasses
import heapq
import json
import random
import selectors
import socket
import subprocess
import sys
import time


@dataclasses.dataclass
class Way:
    """One direction. Shares 0…1; times in milliseconds; rate in kbit/s, 0: unlimited."""

    loss: float = 0.0
    # Gilbert-Elliott: the chance to enter and to leave a bad spell, in which `burst_loss` of the datagrams are lost.
    burst_enter: float = 0.0
    burst_leave: float = 0.2
    burst_loss: float = 0.8
    rate: float = 0.0
    queue: float = 300.0
    delay: float = 0.0
    jitter: float = 0.0
    reorder: float = 0.0


@dataclasses.dataclass
class Profile:
    """What the link does to each direction (`ab`, `ba`), and changes of it: `steps` [{at: seconds, way, …fields}], or {at, rebind}
    for a new address of the client as a NAT makes it. `others`: further networks of the client [{prefix: of its address there,
    ab, ba}]. `what`: the profile in words.
    """

    name: str = "clean"
    ab: dict = dataclasses.field(default_factory=dict)
    ba: dict = dataclasses.field(default_factory=dict)
    steps: list = dataclasses.field(default_factory=list)
    others: list = dataclasses.field(default_factory=list)
    seed: int = 1
    what: str = ""


# Payload types of Opus and RED with all clients of the lab, in clear also under SRTP.
SOUND = (111, 63)


def is_sound(data):
    return len(data) > 12 and data[0] >> 6 == 2 and data[1] & 0x7F in SOUND


class Direction:
    def __init__(self, way, seed):
        self.way = Way(**way)
        self.random = random.Random(seed)
        self.sound = random.Random(f"{seed} sound")
        self.busy_until = self.last_out = 0.0
        self.is_bad = False
        self.passed = self.lost = self.dropped = self.bytes = 0
        self.longest_queue = 0.0

    def change(self, fields):
        self.way = dataclasses.replace(self.way, **fields)

    def fate(self, data, now, has_begun):
        """When a datagram that comes now leaves; None when it is lost."""
        way, count = self.way, len(data)
        if not has_begun:
            self.last_out = now + way.delay / 1000
            return self.last_out
        if way.burst_enter:
            turn = self.random.random()
            self.is_bad = turn >= way.burst_leave if self.is_bad else turn < way.burst_enter
        draws = self.sound if is_sound(data) else self.random
        if draws.random() < (way.burst_loss if self.is_bad else way.loss):
            self.lost += 1
            return None
        out = now
        if way.rate:
            start = max(now, self.busy_until)
            queued = (start - now) * 1000
            if queued > way.queue:
                self.dropped += 1
                return None
            self.longest_queue = max(self.longest_queue, queued)
            # IPv4 and UDP headers take their share of the rate.
            out = self.busy_until = start + (count + 28) * 8 / (way.rate * 1000)
        out += (way.delay + way.jitter * self.random.random()) / 1000
        if way.reorder and self.random.random() < way.reorder:
            self.passed += 1
            self.bytes += count
            return out + 0.02
        out = self.last_out = max(out, self.last_out)
        self.passed += 1
        self.bytes += count
        return out

    def counters(self):
        return {"passed": self.passed, "lost": self.lost, "dropped": self.dropped, "bytes": self.bytes,
                "longestQueueMs": round(self.longest_queue)}


def opened(address):
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        end.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
    end.bind((address, 0))
    end.setblocking(False)
    return end


class Network:
    """The way of the client's addresses that begin with `prefix`, and the socket by which the other end knows them."""

    def __init__(self, prefix, ab, ba, seed, address):
        self.prefix, self.address, self.client = prefix, address, None
        self.ways = {"ab": Direction(ab, f"{seed} ab"), "ba": Direction(ba, f"{seed} ba")}
        self.end = opened(address)

    def counters(self):
        return {name: way.counters() for name, way in self.ways.items()}


class Emulator:
    """The link's loop. `b_peer`: (address, port) of the other end, where it is known from the start."""

    def __init__(self, profile, b_peer=None, addresses=("127.0.0.1", "127.0.0.1")):
        self.b_peer = b_peer
        self.a = opened(addresses[0])
        self.networks = [Network("", profile.ab, profile.ba, profile.seed, addresses[1])]
        for count, other in enumerate(profile.others):
            self.networks.insert(0, Network(other["prefix"], other["ab"], other["ba"], f"{profile.seed} {count}", addresses[1]))
        self.steps = sorted(profile.steps, key=lambda step: step["at"])
        self.begun, self.waiting, self.order = None, [], 0
        self.selector = selectors.DefaultSelector()
        self.selector.register(sys.stdin, selectors.EVENT_READ, "input")
        self.selector.register(self.a, selectors.EVENT_READ, "a")
        for network in self.networks:
            self.selector.register(network.end, selectors.EVENT_READ, network)

    @property
    def main(self):
        return self.networks[-1]

    def run(self):
        print(json.dumps({"a": self.a.getsockname()[1], "b": self.main.end.getsockname()[1]}), flush=True)
        while True:
            until = self.waiting[0][0] - time.monotonic() if self.waiting else 0.1
            for key, _ in self.selector.select(max(0, min(until, 0.1))):
                if key.data != "input":
                    self.drain(key.fileobj, key.data)
                elif sys.stdin.readline().strip() == "begin":
                    self.begun = time.monotonic()
                else:
                    return print(json.dumps({
                        **self.main.counters(), "others": [network.counters() for network in self.networks[:-1]]}), flush=True)
            now = time.monotonic()
            while self.begun and self.steps and now - self.begun >= self.steps[0]["at"]:
                self.change(dict(self.steps.pop(0)))
            while self.waiting and self.waiting[0][0] <= now:
                self.send(*heapq.heappop(self.waiting)[2:])

    def drain(self, end, source):
        for _ in range(64):
            try:
                data, peer = end.recvfrom(2048)
            except OSError:
                return
            if source == "a":
                network = next(one for one in self.networks if peer[0].startswith(one.prefix))
                network.client, way = peer, "ab"
            else:
                network, way, self.b_peer = source, "ba", peer
            out = network.ways[way].fate(data, time.monotonic(), self.begun)
            if out is not None:
                self.order += 1
                heapq.heappush(self.waiting, (out, self.order, network, way, data))

    def send(self, network, way, data):
        end, peer = (network.end, self.b_peer) if way == "ab" else (self.a, network.client)
        if peer:
            try:
                end.sendto(data, peer)
            except OSError:  # a full buffer or a closed end: lost, as on any network
                pass

    def change(self, step):
        del step["at"]
        if step.pop("rebind", False):
            self.selector.unregister(self.main.end)
            self.main.end.close()
            self.main.end = opened(self.main.address)
            self.selector.register(self.main.end, selectors.EVENT_READ, self.main)
        else:
            self.main.ways[step.pop("way")].change(step)


class Link:
    """A link in a process of its own, so that no client's work delays its clock. `addresses`: of its ends `a` and `b`."""

    def __init__(self, profile, b_peer=None, addresses=("127.0.0.1", "127.0.0.1")):
        self.address = addresses[0]
        arguments = [json.dumps(dataclasses.asdict(profile)), json.dumps([b_peer, addresses])]
        self.process = subprocess.Popen(
            [sys.executable, __file__, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ports = json.loads(self.process.stdout.readline())

    def begin(self):
        self.process.stdin.write("begin\n")
        self.process.stdin.flush()

    def end(self):
        """Its counters, by direction."""
        if self.process.poll() is None:
            self.process.stdin.write("end\n")
            self.process.stdin.flush()
        counters = json.loads(self.process.stdout.readline() or "{}")
        self.process.wait(5)
        return counters


if __name__ == "__main__":
    known_peer, known_addresses = json.loads(sys.argv[2]) if len(sys.argv) > 2 else (None, ("127.0.0.1", "127.0.0.1"))
    Emulator(Profile(**json.loads(sys.argv[1])), known_peer and tuple(known_peer), known_addresses).run()
