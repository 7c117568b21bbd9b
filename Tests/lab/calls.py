"""A call between two clients over one emulated link: `RelayCall` through the relay, `DirectCall` with no relay between.

The second client is behind the link, the first one's own network is perfect. All that a call needs of a client is offer, answer
and accept (peer.py, chromium.py); the signaling is here.
"""
import asyncio

from relay import participant

# What signaling takes after a change of the network: a new connection and one request over the mobile network.
SIGNALING = 0.2


def to_link(sdp, address, port):
    """A description whose only way is the link's end at `port`."""
    found = []
    for line in sdp.splitlines():
        if line.startswith(("a=candidate:", "a=end-of-candidates")):
            continue
        found.append(line)
        if line.startswith("a=mid:"):
            found.append(f"a=candidate:1 1 udp 2122260223 {address} {port} typ host")
            found.append("a=end-of-candidates")
    return "\r\n".join(found) + "\r\n"


class RelayCall:
    """`red`: in a room with redundant sound."""

    def __init__(self, relay, link, first, second, red=False):
        self.relay, self.link, self.first, self.second, self.red = relay, link, first, second, red

    async def start(self):
        room = self.relay.create_room(kind="peer", media="video", red=self.red)
        self.locations, self.bearers = {}, {}
        for name, peer in (("first", self.first), ("second", self.second)):
            self.bearers[name] = participant(room, name)
            offer = await peer.offer()
            self.locations[name], answer = await asyncio.to_thread(self.relay.prepare, room, self.bearers[name], offer)
            if name == "second":
                self.answer = answer = to_link(answer, self.link.address, self.link.ports["a"])
            await peer.accept(answer)
        await asyncio.gather(self.first.connected(), self.second.connected())
        for name in ("first", "second"):
            await self.ask("POST", name, "/join")

    async def ask(self, method, name, path="", body=None, headers=None):
        return (await asyncio.to_thread(
            self.relay.ask, method, self.locations[name] + path, body, self.bearers[name], headers)).expect(200)

    async def restart(self):
        """An ICE restart of the second client (RFC 9725 §4.3.3)."""
        offer = await self.second.offer(True)
        await asyncio.sleep(SIGNALING)
        answer = await asyncio.to_thread(
            self.relay.restart, self.locations["second"], self.bearers["second"], offer, self.answer)
        await self.second.accept(answer)

    async def stop(self):
        await self.ask("DELETE", "first")
        await asyncio.gather(self.first.close(), self.second.close())


class DirectCall:
    def __init__(self, link, first, second):
        self.link, self.first, self.second = link, first, second

    async def start(self):
        offer = await self.first.offer()
        answer = await self.second.answer(to_link(offer, self.link.address, self.link.ports["a"]))
        await self.first.accept(to_link(answer, "127.0.0.1", self.link.ports["b"]))
        await asyncio.gather(self.first.connected(), self.second.connected())

    async def restart(self):
        offer = await self.second.offer(True)
        await asyncio.sleep(SIGNALING)
        answer = await self.first.answer(to_link(offer, "127.0.0.1", self.link.ports["b"]))
        await self.second.accept(to_link(answer, self.link.address, self.link.ports["a"]))

    async def stop(self):
        await asyncio.gather(self.first.close(), self.second.close())
