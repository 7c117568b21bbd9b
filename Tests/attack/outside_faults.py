"""Faults of what the relay stands in: clock, network, and neighbours that read or answer nothing."""
import asyncio
import base64
import os
import pathlib
import platform
import shutil
import socket
import subprocess
import tempfile
import time

import relay as module
from fault_tools import Absent, goes_on, hang_up, relay_at, resident, up, watched
from loss_proxy import LossProxy
from relay import ADMIN, check, check_order, token
from wrtc_call import call_up

FAKETIME = "/usr/lib/{}-linux-gnu/faketime/libfaketime.so.1"


async def clock_steps():
    """Steps of the wall clock, an hour forth and two back, move no timer and no call: only times in events and lifetimes of tokens follow it."""
    library = FAKETIME.format(platform.machine())
    if not os.path.exists(library):
        raise Absent("libfaketime is not installed")
    # It names its shared memory by process ids, which are small and the same in every namespace.
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=True)
    folder = tempfile.mkdtemp()
    clock = pathlib.Path(folder, "clock")
    clock.write_text("+0\n")
    module.ADMIN["exp"] = int(time.time()) + 5 * 3_600
    faked = {"LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
             "DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_RESET": "1"}
    os.environ.update(faked)
    # By way of a shell: the library moves the environment of the first program that it comes into, and Swift finds its arguments by it.
    shell = pathlib.Path(folder, "relay")
    shell.write_text(f'#!/bin/sh\nexec {module.BINARY} "$@"\n')
    shell.chmod(0o700)
    module.BINARY = shell
    relay = relay_at()
    try:
        relay.start()
        for name in faked:
            del os.environ[name]
        room, *clients = await up(relay)
        longest, hours = 0.0, []
        for step in ("+3600\n", "-3600\n", "+0\n"):
            ring = relay.create_room(kind="peer", media="audio", ring={"caller": "carol", "callees": ["dave"], "windowMs": 5_000})
            created = time.monotonic()
            clock.write_text(step)
            longest = max(longest, await watched(clients, 2))
            check(relay.room(ring)["status"] != "ended", f"at {step.strip()} s a ring of 5 s ended at once")
            await asyncio.to_thread(relay.await_event, "call.ended", ring, 8)
            rang = time.monotonic() - created
            check(4.5 < rang < 7, f"at {step.strip()} s a ring of 5 s lasted {rang:.1f} s")
            hours.append(relay.events()[-1]["time"][11:16])
        check(longest < 0.5, f"sound paused for {longest:.2f} s at a step")
        check(len(set(hours)) > 1, f"the clock was not faked: {hours}")
        await goes_on(clients, 1)
        await hang_up(relay, room, clients)
        check_order(relay.events())
    finally:
        print(pathlib.Path(relay.log_path).read_text(errors="replace")[-3000:])
        relay.stop()
        shutil.rmtree(folder)
    return f"longest pause of sound {longest * 1000:.0f} ms; events say {hours}"


async def network_away():
    """A network that is gone for 4 s costs the sound of these seconds, and no call."""
    with relay_at() as relay:
        room, *clients = await up(relay)
        subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
        await asyncio.sleep(4)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        came = time.monotonic()
        before = [(await client.totals())["audioPackets"] for client in clients]
        await asyncio.gather(*(
            client.until(lambda totals, then=then: totals["audioPackets"] > then + 20, 15, "sound after the network came back")
            for client, then in zip(clients, before)))
        back = time.monotonic() - came
        await goes_on(clients)
        states = [one["state"] for one in relay.room(room)["participants"]]
        check(states == ["joined", "joined"], f"the participants are {states}")
        await hang_up(relay, room, clients)
    return f"sound again {back:.1f} s after the network"


async def heavy_loss():
    """At 30 % loss on both ways of both legs for 8 s the call stays up, and is whole again afterwards."""
    with relay_at() as relay:
        room = relay.create_room(kind="peer", media="video")
        proxies = [LossProxy(("127.0.0.1", 40000), 0.3, seed) for seed in (3, 4)]
        clients = await call_up(relay, room, proxies=proxies)
        before = [await client.totals() for client in clients]
        for proxy in proxies:
            proxy.is_lossy = True
        await asyncio.sleep(8)
        for proxy in proxies:
            proxy.is_lossy = False
        middle = [await client.totals() for client in clients]
        for then, now in zip(before, middle):
            check(now["audioPackets"] - then["audioPackets"] > 8 * 50 * 0.4, f"sound came with {now}")
        await asyncio.sleep(2)
        await goes_on(clients)
        frames = [now["framesDecoded"] - then["framesDecoded"] for then, now in zip(before, middle)]
        await hang_up(relay, room, clients)
        for proxy in proxies:
            proxy.stop()
    return f"{frames} frames in the 8 s"


async def stalled_reader():
    """Event readers that read nothing cost a bounded queue each; others are told everything, in time."""
    with relay_at() as relay:
        ends = []
        for _ in range(50):
            end = socket.socket()
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            end.connect(("127.0.0.1", 8080))
            end.sendall(f"GET /v1/events?after=0 HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nAuthorization: Bearer {token(ADMIN)}\r\n\r\n".encode())
            ends.append(end)
        memory = resident(relay.process.pid)
        slowest = 0.0
        for _ in range(600):
            began = time.monotonic()
            room = relay.create_room(kind="peer", media="audio", metadata={"text": "x" * 1_500})
            slowest = max(slowest, time.monotonic() - began)
            relay.admin("DELETE", f"/v1/rooms/{room}").expect(200)
        told = relay.events()
        check(len(told) > 1_200, f"{len(told)} events are there")
        growth = resident(relay.process.pid) - memory
        check(growth < 64 * 1024, f"control grew by {growth} KiB")
        check(slowest < 1, f"a request took {slowest:.2f} s")
        for end in ends:
            end.close()
    return f"{len(told)} events, control grew by {growth // 1024} MiB, slowest request {slowest * 1000:.0f} ms"


async def dead_webhook():
    """An endpoint that takes connections and never answers delays nobody: not the API, not a call, not the end of the process."""
    hole = socket.create_server(("127.0.0.1", 0), backlog=64)
    secret = "whsec_" + base64.b64encode(bytes(range(32))).decode()
    with relay_at(options=["--webhook", f"main=http://127.0.0.1:{hole.getsockname()[1]}/", "--webhook-secret", f"main={secret}"]) as relay:
        room, *clients = await up(relay)
        memory, slowest = resident(relay.process.pid), 0.0

        def load():
            nonlocal slowest
            for _ in range(400):
                began = time.monotonic()
                relay.admin("DELETE", "/v1/rooms/" + relay.create_room(kind="peer", media="audio"))
                slowest = max(slowest, time.monotonic() - began)

        gap = await watched(clients, 1, load)
        growth = resident(relay.process.pid) - memory
        check(gap < 0.5 and slowest < 1, f"sound paused for {gap:.2f} s, a request took {slowest:.2f} s")
        check(growth < 32 * 1024, f"control grew by {growth} KiB")
        await hang_up(relay, room, clients)
        began = time.monotonic()
        relay.process.terminate()
        await asyncio.to_thread(relay.process.wait, 10)
        seconds = time.monotonic() - began
        check(seconds < 5, f"the end took {seconds:.1f} s")
        check(secret not in pathlib.Path(relay.log_path).read_text(), "the secret is in the log")
    hole.close()
    return f"slowest request {slowest * 1000:.0f} ms, the end took {seconds:.1f} s"


async def ipv6_off():
    """On a host without IPv6 the relay serves IPv4."""
    pathlib.Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("1")
    with relay_at(media="0.0.0.0:40000", options=["--media", "[::]:40000"]) as relay:
        room, *clients = await up(relay)
        check("::" not in clients[0].pc.remote_description.sdp.replace("a=candidate", ""), "an IPv6 address was offered")
        await goes_on(clients, 1)
        await hang_up(relay, room, clients)
    return ""
