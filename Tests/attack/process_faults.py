"""Faults of the relay's own processes, and the bounds that the machine sets them."""
import asyncio
import contextlib
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from fault_tools import goes_on, hang_up, relay_at, up, watched
from relay import BINARY, check, check_order


async def worker_stopped():
    """A worker that stands still for less than 6 s costs that time; one that goes on standing is killed within 10 s, its calls end as node-lost, and another takes its place."""
    with relay_at() as relay:
        room, *clients = await up(relay)
        pid, = relay.worker_pids()
        await asyncio.sleep(1.5)
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(3)
        os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(1)
        await goes_on(clients)
        check(relay.worker_pids() == [pid], "the worker was replaced after 3 s")
        os.kill(pid, signal.SIGSTOP)
        stopped = time.monotonic()
        closed = await asyncio.to_thread(relay.await_event, "room.closed", room, 15)
        seconds = time.monotonic() - stopped
        check(closed["data"]["outcome"] == "node-lost", f"the room ended as {closed['data']}")
        await asyncio.gather(*(client.close() for client in clients))
        await asyncio.to_thread(relay.wait_ready)
        room, *clients = await up(relay)
        await hang_up(relay, room, clients)
    return f"node-lost after {seconds:.1f} s"


HOLD_THREAD = '''
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype, libc.ptrace.argtypes = ctypes.c_long, [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
thread = int(sys.argv[1])
for request in (0x4206, 0x4207):  # PTRACE_SEIZE, PTRACE_INTERRUPT: this thread stands, the others of its process go on
    if libc.ptrace(request, thread, None, None) < 0:
        sys.exit(f"ptrace: {os.strerror(ctypes.get_errno())}")
print("held", flush=True)
while True:
    _, status = os.waitpid(thread, 0x40000000)  # __WALL: until it is gone
    if os.WIFEXITED(status) or os.WIFSIGNALED(status):
        break
'''


async def handshaker_stopped():
    """A worker whose handshaker thread alone stands still, while its media loop runs, is killed within 10 s; its calls end as node-lost, and another takes its place."""
    with relay_at() as relay:
        room, *clients = await up(relay)
        pid, = relay.worker_pids()
        tasks = pathlib.Path(f"/proc/{pid}/task")
        thread, = (one.name for one in tasks.iterdir() if (one / "comm").read_text().strip() == "handshaker")
        holder = subprocess.Popen([sys.executable, "-c", HOLD_THREAD, thread], stdout=subprocess.PIPE, text=True)
        check(holder.stdout.readline() == "held\n", "the thread was not held")
        stopped = time.monotonic()
        await goes_on(clients, 1)
        check(relay.worker_pids() == [pid], "the worker was killed at once")
        closed = await asyncio.to_thread(relay.await_event, "room.closed", room, 15)
        seconds = time.monotonic() - stopped
        check(closed["data"]["outcome"] == "node-lost", f"the room ended as {closed['data']}")
        check(5 < seconds < 10, f"it took {seconds:.1f} s")
        check("hangs in its handshaker" in pathlib.Path(relay.log_path).read_text(), "the log does not say why")
        check(await asyncio.to_thread(holder.wait, 5) == 0, "the thread's holder failed")
        await asyncio.gather(*(client.close() for client in clients))
        await asyncio.to_thread(relay.wait_ready)
        room, *clients = await up(relay)
        await hang_up(relay, room, clients)
    return f"node-lost after {seconds:.1f} s"


async def control_stopped():
    """While control stands still calls go on and requests wait; when it goes on they are answered, and no worker is blamed."""
    with relay_at() as relay:
        room, *clients = await up(relay)
        workers, answers = relay.worker_pids(), []
        os.kill(relay.process.pid, signal.SIGSTOP)
        waiting = threading.Thread(target=lambda: answers.append(relay.admin("POST", "/v1/rooms", {"kind": "peer", "media": "audio"}).status))
        waiting.start()
        gap = await watched(clients, 12)
        check(not answers, "a stopped process answered")
        os.kill(relay.process.pid, signal.SIGCONT)
        await asyncio.to_thread(waiting.join, 10)
        check(answers == [201], f"the request that waited was answered {answers}")
        check(gap < 0.5, f"sound paused for {gap:.2f} s")
        await asyncio.sleep(4)
        check(relay.worker_pids() == workers, "the worker was replaced")
        await goes_on(clients)
        await hang_up(relay, room, clients)
        check_order(relay.events())
    return f"12 s; longest pause of sound {gap * 1000:.0f} ms"


async def control_stop():
    """SIGTERM ends every call as drained, tells it, says goodbye to the clients and exits with 0."""
    with relay_at() as relay:
        room, *clients = await up(relay)
        relay.process.terminate()
        await asyncio.gather(*(client.until(lambda totals: totals["dtlsState"] == "closed", 5, "close_notify") for client in clients))
        code = await asyncio.to_thread(relay.process.wait, 10)
        check(code == 0, f"it ended with {code}")
        check(relay.worker_pids() == [], f"workers are left: {relay.worker_pids()}")
        await asyncio.gather(*(client.close() for client in clients))
        relay.start()
        closed = relay.await_event("room.closed", room, 2)
        check(closed["data"]["outcome"] == "drained", f"the room ended as {closed['data']}")
    return ""


async def out_of_descriptors():
    """Without descriptors new connections are turned away or wait; calls go on, and service comes back with the descriptors."""
    with relay_at() as relay:
        room, *clients = await up(relay)
        pids = [relay.process.pid, *relay.worker_pids()]
        before = {pid: resource.prlimit(pid, resource.RLIMIT_NOFILE) for pid in pids}
        for pid in pids:
            count = len(os.listdir(f"/proc/{pid}/fd"))
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (count + 2, before[pid][1]))
        ends = []
        for _ in range(40):
            with contextlib.suppress(OSError):
                ends.append(socket.create_connection(("127.0.0.1", 8080), timeout=0.5))
        for _ in range(20):
            with contextlib.suppress(OSError):
                ends.append(socket.create_connection(("127.0.0.1", 40000), timeout=0.5))
        gap = await watched(clients, 4)
        check(gap < 0.5, f"sound paused for {gap:.2f} s without descriptors")
        for end in ends:
            end.close()
        for pid in pids:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before[pid])
        await asyncio.sleep(1.5)
        await hang_up(relay, room, clients)
        room, *clients = await up(relay)
        await hang_up(relay, room, clients)
    return f"longest pause of sound {gap * 1000:.0f} ms"


async def port_taken():
    """A taken API port ends the start with the port's name; a taken media port is passed over for the next of the range."""
    taken = socket.create_server(("127.0.0.1", 8080))
    folder = tempfile.mkdtemp()
    done = subprocess.run([BINARY, "serve", "--data", folder, "--http", "127.0.0.1:8080", "--media", "127.0.0.1:40000"],
                          capture_output=True, text=True, timeout=20)
    taken.close()
    check(done.returncode == 1 and "8080" in done.stderr, f"{done.returncode}: {done.stderr}")
    left = subprocess.run(["pgrep", "-f", folder], capture_output=True, text=True).stdout
    check(not left, f"the start that failed left processes: {left}")
    shutil.rmtree(folder)
    media = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    media.bind(("127.0.0.1", 40000))
    with relay_at() as relay:
        room, *clients = await up(relay)
        check("127.0.0.1 40001 typ" in clients[0].pc.remote_description.sdp, "the answer does not name port 40001")
        await goes_on(clients, 1)
        await hang_up(relay, room, clients)
    media.close()
    return done.stderr.strip()[-80:]
