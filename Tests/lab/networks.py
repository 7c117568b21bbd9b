"""Wi-Fi and mobile: the second client in a network namespace of its own with two interfaces, of which one goes away in mid-call.

Needs root and a network namespace of the lab's own (lab.py makes one for each call). The link's end stands on an address that
both networks lead to, as a server's does; the link gives each network its own delay and rate by the client's address.
"""
import asyncio
import subprocess

from peer import RemotePeer

SERVER = "10.99.0.9"
WIFI, MOBILE = "10.1.0.", "10.2.0."
# When the mobile network comes up and when the Wi-Fi goes; how soon an app hears of that from its system.
MOBILE_UP, WIFI_GONE, NOTICE = 7, 10, 0.1


def ip(*arguments, inside=None):
    prefix = ["nsenter", "--target", str(inside), "--net"] if inside else []
    subprocess.run([*prefix, "ip", *arguments], check=True)


class TwoNetworks:
    """`client` lives in the other namespace; `move` is its change of networks."""

    def __init__(self):
        ip("addr", "add", f"{SERVER}/32", "dev", "lo")

    async def start(self):
        self.client = await RemotePeer(("unshare", "--net")).start()
        self.inside = self.client.process.pid
        await asyncio.sleep(0.5)
        for name, prefix in (("wifi", WIFI), ("mobile", MOBILE)):
            ip("link", "add", f"lab-{name}", "type", "veth", "peer", "name", name, "netns", str(self.inside))
            ip("addr", "add", prefix + "1/24", "dev", f"lab-{name}")
            ip("link", "set", f"lab-{name}", "up")
        ip("link", "set", "lo", "up", inside=self.inside)
        self.connect("wifi", WIFI)
        return self.client

    def connect(self, name, prefix):
        ip("addr", "add", prefix + "2/24", "dev", name, inside=self.inside)
        ip("link", "set", name, "up", inside=self.inside)
        ip("route", "append", "default", "via", prefix + "1", "dev", name, inside=self.inside)

    async def move(self, call):
        """From the profile's beginning on: both networks for a while, then only the second, and an ICE restart by the app."""
        await asyncio.sleep(MOBILE_UP)
        self.connect("mobile", MOBILE)
        await asyncio.sleep(WIFI_GONE - MOBILE_UP)
        ip("addr", "flush", "dev", "wifi", inside=self.inside)
        ip("link", "set", "wifi", "down", inside=self.inside)
        await asyncio.sleep(NOTICE)
        await call.restart()
