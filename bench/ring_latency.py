#!/usr/bin/env python3
"""How long after the answer both sides of a call hear and see each other, at 50 ms one way.

    bench/ring_latency.py [--runs 12] [--delay-ms 50] [--client chromium|wrtc]… [--json FILE]

Every datagram and every byte of HTTP between the clients and the relay is delayed, in both directions. `prepared`:
the caller sends into the closed gate with `join=on-answer`, the callee is prepared without tracks, and joins. `early`:
the same, and the relay sends the caller's newest key frame first. `cold`: the callee has nothing and POSTs its offer
at the answer. Clients: Chromium, both sides being sessions of one page (session.js of the relay), fake camera and a
tone open before; and wrtc (libwebrtc), both in one process. Beside them the prototype's figures, arranged the same.
"""
import argparse
import collections
import json
import os
import pathlib
import select
import socket
import statistics
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "Tests/interop"), str(ROOT / "clients/python")]

SIDES = ["callee hears", "callee sees", "caller hears", "caller sees"]
# 50 ms one way, p50 and p95 of each side (prepared: the callee with null tracks).
PROTOTYPE = {
    "chromium": {
        "prepared": [(144, 159), (306, 337), (147, 157), (221, 250)],
        "early": [(169, 193), (149, 165), (170, 187), (141, 160)],
        "cold": [(493, 534), (684, 720), (605, 647), (638, 684)],
    },
    "wrtc": {
        "prepared": [(118, 143), (234, 248), (127, 138), (141, 153)],
        "early": [(120, 135), (106, 114), (115, 132), (107, 114)],
        "cold": [(436, 455), (558, 589), (552, 593), (539, 583)],
    },
}
DELAYED_HTTP = ("127.0.0.1", 9080)


class DatagramDelay(threading.Thread):
    """Stands on the address that the relay announces; every datagram goes on after a fixed time, in order."""

    def __init__(self, address, target, seconds):
        super().__init__(daemon=True)
        self.target, self.seconds = target, seconds
        self.listener = self.opened(address)
        self.flows = {}
        self.clients = {}
        self.queue = collections.deque()
        self.is_running = True
        self.start()

    @staticmethod
    def opened(address):
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        made.bind(address)
        made.setblocking(False)
        return made

    def run(self):
        while self.is_running:
            now = time.monotonic()
            while self.queue and self.queue[0][0] <= now:
                _, end, data, peer = self.queue.popleft()
                try:
                    end.sendto(data, peer)
                except OSError:
                    pass
            wait = min(0.2, self.queue[0][0] - now) if self.queue else 0.2
            for end in select.select([self.listener, *self.clients], [], [], max(0, wait))[0]:
                self.drain(end)

    def drain(self, end):
        while True:
            try:
                data, peer = end.recvfrom(2048)
            except OSError:
                return
            due = time.monotonic() + self.seconds
            if end is not self.listener:
                self.queue.append((due, self.listener, data, self.clients[end]))
                continue
            if peer not in self.flows:
                # A socket for each client: the relay tells clients apart by their address.
                self.flows[peer] = self.opened((self.target[0], 0))
                self.clients[self.flows[peer]] = peer
            self.queue.append((due, self.flows[peer], data, self.target))


class StreamDelay(threading.Thread):
    """The same for TCP."""

    def __init__(self, address, target, seconds):
        super().__init__(daemon=True)
        self.target, self.seconds = target, seconds
        self.listener = socket.create_server(address)
        self.start()

    def run(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection(self.target)
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, sink in ((client, server), (server, client)):
                queue = collections.deque()
                ready = threading.Condition()
                threading.Thread(target=self.read, args=(source, queue, ready), daemon=True).start()
                threading.Thread(target=self.write, args=(sink, queue, ready), daemon=True).start()

    def read(self, source, queue, ready):
        while True:
            try:
                data = source.recv(65536)
            except OSError:
                data = b""
            with ready:
                queue.append((time.monotonic() + self.seconds, data))
                ready.notify()
            if not data:
                return

    def write(self, sink, queue, ready):
        while True:
            with ready:
                while not queue:
                    ready.wait()
                due, data = queue.popleft()
            time.sleep(max(0, due - time.monotonic()))
            try:
                if not data:
                    return sink.shutdown(socket.SHUT_WR)
                sink.sendall(data)
            except OSError:
                return None


class Bench:
    """A relay behind the delays; figures by client, mode and side, milliseconds."""

    def __init__(self, node, runs, delay):
        import mediarelay
        import relay as interop

        self.node, self.runs = node, runs
        DatagramDelay(("10.99.0.9", 40000), ("10.99.0.1", 40000), delay)
        host, port = node.http.split(":")
        StreamDelay(DELAYED_HTTP, (host, int(port)), delay)
        self.client = mediarelay.Relay(f"http://{node.http}", mediarelay.Key(interop.KEY_ID, interop.SECRET))
        contract = node.ask("GET", "/v1/openapi.json").expect(200).body.decode()
        self.modes = [mode for mode in PROTOTYPE["wrtc"] if mode != "early" or '"earlyKeyFrame"' in contract]

    def run(self, name, once):
        """`once(room, caller's token, callee's token, mode)`. The first run of each mode only warms up."""
        found = {mode: [] for mode in self.modes}
        for run in range(self.runs + 1):
            for mode in self.modes:
                ring = {"caller": "alice", "callees": ["bob"]}
                room = self.client.create_room(kind="peer", media="video", ring=ring)["id"]
                tokens = [self.client.participant_token(room, uid, "bench") for uid in ("alice", "bob")]
                times = once(room, *tokens, mode)
                if run > 0:
                    found[mode].append(times)
                print(f"{name} {mode} {run}: " + ", ".join(f"{side} {times[side]:.0f}" for side in SIDES), flush=True)
        return found

    def chromium(self):
        from browser import Page, chromium

        with chromium(f"http://127.0.0.1:{DELAYED_HTTP[1]}/?name=bench"):
            page = Page("name=bench")
            page.socket.settimeout(60)
            page.until("document.getElementById('name')?.value === 'bench'", 20, "page")
            page.evaluate((ROOT / "bench/ring_latency.js").read_text())

            def once(room, caller, callee, mode):
                options = {"room": room, "mode": mode, "caller": caller, "callee": callee}
                return page.evaluate(f"measureRing({json.dumps(options)})", wait=True)

            found = self.run("chromium", once)
            page.close()
            return found

    def wrtc(self):
        import asyncio

        from ring_latency_wrtc import ring

        return self.run("wrtc", lambda *given: asyncio.run(ring(DELAYED_HTTP, *given)))


def measure(clients, runs, delay):
    from relay import Relay

    with Relay(media="10.99.0.1:40000", announce=["10.99.0.9"]) as node:
        bench = Bench(node, runs, delay)
        return {name: getattr(bench, name)() for name in clients}


def percentile(values, share):
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * share // 100) - 1))]


def summarized(found):
    return {
        mode: {
            side: {
                "p50": round(statistics.median(times[side] for times in runs), 1),
                "p95": round(percentile([times[side] for times in runs], 95), 1),
                "n": len(runs)}
            for side in SIDES}
        for mode, runs in found.items()}


def table(name, summary, delay):
    lines = [
        f"Answer → first sound and first decoded picture, ms, p50 / p95, {name}, {delay * 1000:.0f} ms one way "
        "(prototype in brackets)", "", "| | " + " | ".join(SIDES) + " |", "|---|" + "---|" * len(SIDES)]
    for mode, sides in summary.items():
        cells = []
        for side, prototype in zip(SIDES, PROTOTYPE[name][mode]):
            figures = sides[side]
            before = " ({} / {})".format(*prototype) if delay == 0.05 else ""
            cells.append(f"{figures['p50']:.0f} / {figures['p95']:.0f}{before}")
        lines.append(f"| {mode} (n={sides[SIDES[0]]['n']}) | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--client", action="append", choices=list(PROTOTYPE), help="default: all")
    parser.add_argument("--delay-ms", type=float, default=50)
    parser.add_argument("--json", metavar="FILE", default=str(ROOT / "bench/out/ring-latency.json"))
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not given.inside:
        if os.geteuid() != 0:
            sys.exit("ring_latency.py: a network namespace needs root")
        isolation = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        sys.exit(subprocess.call([*isolation, sys.executable, *sys.argv, "--inside"]))
    from run import set_up_network

    set_up_network("veth")
    delay = given.delay_ms / 1000
    found = measure(given.client or list(PROTOTYPE), given.runs, delay)
    summary = {name: summarized(modes) for name, modes in found.items()}
    target = pathlib.Path(given.json)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"delayMs": given.delay_ms, "summary": summary, "runs": found}, indent=1) + "\n")
    for name in summary:
        print(f"\n{table(name, summary[name], delay)}")
    print(f"\n{target}", flush=True)
    # Clients leave threads behind.
    os._exit(0)


if __name__ == "__main__":
    main()
