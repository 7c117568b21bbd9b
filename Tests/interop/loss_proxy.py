"""Seeded UDP forwarders between clients and the media relay: they lose a share of the datagrams in both directions.

This machine's kernel may lack netem, so loss is made here; it is the same in every run for the same sequence of datagrams.
`LossProxy` serves one client, whose answer is rewritten to point at it. `LossGate` serves clients that take the relay's answer
as it is: it stands on the address that the relay announces.
"""
import random
import re
import select
import selectors
import socket
import threading
import time


class LossProxy(threading.Thread):
    def __init__(self, target, loss, seed):
        super().__init__(daemon=True)
        self.target, self.loss = target, loss
        self.random = random.Random(seed)
        self.inside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.inside.bind(("127.0.0.1", 0))
        self.outside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.outside.bind(("127.0.0.1", 0))
        for end in (self.inside, self.outside):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.client = None
        self.is_lossy = False
        self.passed = self.lost = 0
        self.is_running = True
        self.start()

    @property
    def port(self):
        return self.inside.getsockname()[1]

    def rewritten(self, answer):
        """The relay's answer with the proxy as its only candidate."""
        port = self.port
        return re.sub(
            r"^(a=candidate:\S+ \d+ \S+ \d+) (\S+) \d+ ", lambda found: f"{found[1]} 127.0.0.1 {port} ", answer,
            flags=re.MULTILINE)

    def run(self):
        while self.is_running:
            for end in select.select([self.inside, self.outside], [], [], 0.2)[0]:
                data, peer = end.recvfrom(2048)
                if end is self.inside:
                    self.client = peer
                if self.is_lossy and self.random.random() < self.loss:
                    self.lost += 1
                    continue
                self.passed += 1
                if end is self.inside:
                    self.outside.sendto(data, self.target)
                elif self.client:
                    self.inside.sendto(data, self.client)

    def stop(self):
        self.is_running = False
        self.join()
        self.inside.close()
        self.outside.close()


class Flow:
    """One client address at a gate: the socket by which the relay knows it, and a seeded loss for each direction."""

    def __init__(self, client, gate, index):
        self.client = client
        self.socket = None
        self.bind(gate.target)
        self.random = {way: random.Random(f"{gate.seed} {index} {way}") for way in ("up", "down")}
        self.passed, self.lost = {"up": 0, "down": 0}, {"up": 0, "down": 0}

    def bind(self, target):
        """Takes another port towards the relay."""
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.socket.bind((target[0], 0))
        self.socket.connect(target)
        self.socket.setblocking(False)


class LossGate(threading.Thread):
    """Stands on `address` (the relay's port on the address that it announces) and forwards to `target`, where it listens.

    Each client address gets a socket of its own towards the relay, so that the relay tells the clients apart as always.
    """

    FLOWS = 64

    def __init__(self, address, target, loss, seed):
        super().__init__(daemon=True)
        self.target, self.loss, self.seed = target, loss, seed
        self.is_lossy = self.is_running = True
        # A datagram to nowhere while it is closed.
        self.is_open, self.is_rebinding = True, False
        self.flows = {}
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.listener.bind(address)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.start()

    def run(self):
        while self.is_running:
            ready = self.selector.select(0.2)
            if self.is_rebinding:
                for flow in self.flows.values():
                    self.rebind_flow(flow)
                self.is_rebinding = False
                continue
            for key, _ in ready:
                self.drain(key.fileobj, key.data)

    def rebind(self):
        """What a NAT does that forgets its table: every client has another port, and the ones before lead nowhere."""
        self.is_rebinding = True
        while self.is_rebinding:
            time.sleep(0.001)

    def rebind_flow(self, flow):
        self.selector.unregister(flow.socket)
        before = flow.socket
        flow.bind(self.target)
        before.close()
        self.selector.register(flow.socket, selectors.EVENT_READ, flow)

    def drain(self, end, flow):
        for _ in range(64):
            try:
                data, peer = end.recvfrom(2048)
            except OSError:  # nothing more, or the relay's port is closed
                return
            if flow:
                self.forward(data, flow, "down")
            elif found := self.flows.get(peer) or self.admit(peer):
                self.forward(data, found, "up")

    def admit(self, peer):
        if len(self.flows) == self.FLOWS:
            return None
        flow = self.flows[peer] = Flow(peer, self, len(self.flows))
        self.selector.register(flow.socket, selectors.EVENT_READ, flow)
        return flow

    def forward(self, data, flow, way):
        if not self.is_open:
            return
        if self.is_lossy and flow.random[way].random() < self.loss:
            flow.lost[way] += 1
            return
        flow.passed[way] += 1
        try:
            if way == "up":
                flow.socket.send(data)
            else:
                self.listener.sendto(data, flow.client)
        except OSError:  # full or closed: lost as on any network
            pass

    def busiest(self, count):
        """The flows with the most datagrams: those that carry the calls."""
        return sorted(self.flows.values(), key=lambda flow: -sum(flow.passed.values()))[:count]

    def stop(self):
        self.is_running = False
        self.join()
        for end in [self.listener, *(flow.socket for flow in self.flows.values())]:
            end.close()
        self.selector.close()
