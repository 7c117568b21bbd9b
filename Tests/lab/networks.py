"""Wi-Fi and mobile: the second client in a network namespace of its own with two interfaces, of which one goes away in mid-call.

Needs root and a network namespace of the lab's own (measure.py makes one for each call). The link's end stands on an address that
both networks lead to, as a server's does; the link gives each network its own delay and rate by the client's address.
"""
import asyncio
import concurrent.futures
import ctypes
import os
import subprocess

SERVER = "10.99.0.9"
WIFI, MOBILE = "10.1.0.", "10.2.0."
# When the mobile network comes up and when the Wi-Fi goes; how soon an app hears of that from its system.
MOBILE_UP, WIFI_GONE, NOTICE = 7, 10, 0.1
CLONE_NEWNET = 0x40000000


def ip(*arguments, inside=None):
    prefix = ["nsenter", "--target", str(inside), "--net"] if inside else []
    subprocess.run([*prefix, "ip", *arguments], check=True)


def within(inside, work):
    """What `work` gives when it is done in the network namespace of the process `inside`: sockets and programs stay there."""
    def enter():
        with open(f"/proc/{inside}/ns/net", "rb") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        return work()

    # A thread is in a namespace of its own; this one ends with the work.
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(enter).result()


class TwoNetworks:
    """`inside`: a process of the namespace with both networks. `move` is the client's change from one to the other."""

    def __init__(self):
        ip("addr", "add", f"{SERVER}/32", "dev", "lo")
        self.process = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL)
        self.inside = self.process.pid
        while os.readlink(f"/proc/{self.inside}/ns/net") == os.readlink("/proc/self/ns/net"):
            os.sched_yield()
        for name, prefix in (("wifi", WIFI), ("mobile", MOBILE)):
            ip("link", "add", f"lab-{name}", "type", "veth", "peer", "name", name, "netns", str(self.inside))
            ip("addr", "add", prefix + "1/24", "dev", f"lab-{name}")
            ip("link", "set", f"lab-{name}", "up")
        ip("link", "set", "lo", "up", inside=self.inside)
        self.connect("wifi", WIFI)

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

    def stop(self):
        self.process.kill()
        self.process.wait()
