"""A seeded UDP relay between one client and the media relay: loses a share of the datagrams in both directions.

This machine's kernel may lack netem, so loss is made here. One proxy serves one client; its loss is the same in every run
for the same sequence of datagrams.
"""
import random
import re
import select
import socket
import threading


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
