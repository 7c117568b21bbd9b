#!/usr/bin/env python3
"""An emulated network link between two UDP ends, in user space: loss, bursts, rate with a queue, delay, jitter, reordering.

Two sockets, `a` and `b`: what comes to one leaves from the other, so each end sees the link's socket as its peer. Ends are
learned from their first datagram, or given. Seeded: the same datagrams meet the same fate in every run. The kernels that we
test on have no netem, so this is done here.

As a program: `link.py PROFILE` with PROFILE as JSON (see `Profile`); prints one line of JSON with the ports, takes the commands
`begin` (the profile's clock starts; before it the link is perfect) and `end` on its input, and prints its counters at the end.
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
    """What the link does to each direction (`ab`, `ba`), and changes of it: `steps` [{at: seconds, way, …fields}]."""

    name: str = "clean"
    ab: dict = dataclasses.field(default_factory=dict)
    ba: dict = dataclasses.field(default_factory=dict)
    steps: list = dataclasses.field(default_factory=list)
    seed: int = 1


class Direction:
    def __init__(self, way, seed):
        self.way = Way(**way)
        self.random = random.Random(seed)
        self.busy_until = self.last_out = 0.0
        self.is_bad = False
        self.passed = self.lost = self.dropped = self.bytes = 0
        self.longest_queue = 0.0

    def change(self, fields):
        self.way = dataclasses.replace(self.way, **fields)

    def fate(self, count, now):
        """When a datagram of `count` bytes that comes now leaves; None when it is lost."""
        way = self.way
        if way.burst_enter:
            turn = self.random.random()
            self.is_bad = turn >= way.burst_leave if self.is_bad else turn < way.burst_enter
        if self.random.random() < (way.burst_loss if self.is_bad else way.loss):
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


def run(profile, a_peer=None, b_peer=None, address="127.0.0.1"):
    """The link's loop. `*_peer`: (address, port) of an end that is known from the start."""
    ends, peers = {}, {"a": a_peer, "b": b_peer}
    selector = selectors.DefaultSelector()
    for name in "ab":
        end = ends[name] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            end.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
        end.bind((address, 0))
        end.setblocking(False)
        selector.register(end, selectors.EVENT_READ, name)
    selector.register(sys.stdin, selectors.EVENT_READ, "input")
    print(json.dumps({name: end.getsockname()[1] for name, end in ends.items()}), flush=True)
    ways = {"a": Direction(profile.ab, f"{profile.seed} ab"), "b": Direction(profile.ba, f"{profile.seed} ba")}
    steps = sorted(profile.steps, key=lambda step: step["at"])
    begun, waiting, order = None, [], 0
    while True:
        now = time.monotonic()
        until = waiting[0][0] - now if waiting else 0.1
        for key, _ in selector.select(max(0, min(until, 0.1))):
            if key.data == "input":
                command = sys.stdin.readline().strip()
                if command == "begin":
                    begun = time.monotonic()
                elif command in ("end", ""):
                    print(json.dumps({"ab": ways["a"].counters(), "ba": ways["b"].counters()}), flush=True)
                    return
                continue
            for _ in range(64):
                try:
                    data, peer = key.fileobj.recvfrom(2048)
                except OSError:
                    break
                peers[key.data] = peer
                now = time.monotonic()
                out = ways[key.data].fate(len(data), now) if begun else now
                if out is not None:
                    order += 1
                    heapq.heappush(waiting, (out, order, "b" if key.data == "a" else "a", data))
        now = time.monotonic()
        while begun and steps and now - begun >= steps[0]["at"]:
            step = dict(steps.pop(0))
            step.pop("at")
            ways["a" if step.pop("way") == "ab" else "b"].change(step)
        while waiting and waiting[0][0] <= now:
            _, _, name, data = heapq.heappop(waiting)
            if peers[name]:
                try:
                    ends[name].sendto(data, peers[name])
                except OSError:  # a full buffer or a closed end: lost, as on any network
                    pass


class Link:
    """A link in a process of its own, so that no client's work delays its clock."""

    def __init__(self, profile, a_peer=None, b_peer=None, address="127.0.0.1"):
        arguments = [json.dumps(dataclasses.asdict(profile)), json.dumps([a_peer, b_peer, address])]
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
    given, known = Profile(**json.loads(sys.argv[1])), json.loads(sys.argv[2]) if len(sys.argv) > 2 else [None, None]
    run(given, *(tuple(peer) if isinstance(peer, list) else peer for peer in known))
