"""Sends datagrams from any source address and port, as fast as asked: raw sockets and sendmmsg, a process of its own.

As a program: flood.py FILE RATE COUNT (rate 0: as fast as it goes); FILE holds whole IP packets, each behind its length. It goes
round them until COUNT are sent and prints how many those were and the seconds that it took. Root, loopback only.
"""
import asyncio
import ctypes
import json
import os
import random
import socket
import struct
import sys
import tempfile
import time

from wire import MARK

BATCH = 64
STRANGERS = [f"127.0.0.{last}" for last in (66, 67, 68, 69, 74, 75, 76, 78, 79)]


def packet(payload, source, target):
    """An IP packet with a UDP datagram (no UDP checksum; the kernel fills in the IP one)."""
    length = 28 + len(payload)
    return (
        struct.pack("!BBHHHBBH4s4s", 0x45, 0, length, 0, 0, MARK, 17, 0, socket.inet_aton(source[0]), socket.inet_aton(target[0]))
        + struct.pack("!HHHH", source[1], target[1], 8 + len(payload), 0) + payload)


def strangers(seed=1):
    """Source addresses without end: nine hosts, any port."""
    draw = random.Random(seed)
    while True:
        yield draw.choice(STRANGERS), draw.randrange(1024, 65536)


class IOVec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class MsgHdr(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_void_p), ("name_length", ctypes.c_uint32), ("vector", ctypes.c_void_p), ("count", ctypes.c_size_t),
        ("control", ctypes.c_void_p), ("control_length", ctypes.c_size_t), ("flags", ctypes.c_int)]


class MMsgHdr(ctypes.Structure):
    _fields_ = [("header", MsgHdr), ("sent", ctypes.c_uint32)]


def send(packets, rate, count):
    """Sends `count` of the packets, going round them; returns how many left and how long it took."""
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    libc = ctypes.CDLL(None, use_errno=True)
    address = ctypes.create_string_buffer(struct.pack("=HH4s8x", socket.AF_INET, 0, packets[0][16:20]), 16)
    # Whole batches: the list is repeated until it is longer than one, then padded from its start.
    rounds = packets * (BATCH // len(packets) + 1) if len(packets) < BATCH else packets + packets[:-len(packets) % BATCH]
    rounds = rounds[:len(rounds) // BATCH * BATCH] if len(packets) < BATCH else rounds
    buffers = [ctypes.create_string_buffer(data, len(data)) for data in rounds]
    vectors = (IOVec * len(rounds))(*(IOVec(ctypes.addressof(data), len(data)) for data in buffers))
    messages = (MMsgHdr * len(rounds))()
    for index, message in enumerate(messages):
        message.header.name, message.header.name_length = ctypes.addressof(address), 16
        message.header.vector, message.header.count = ctypes.addressof(vectors) + index * ctypes.sizeof(IOVec), 1
    size, done, at = ctypes.sizeof(MMsgHdr), 0, 0
    started = origin = time.monotonic()
    paced = 0
    while done < count:
        wanted = min(BATCH, count - done, len(rounds) - at)
        sent = libc.sendmmsg(raw.fileno(), ctypes.byref(messages, at * size), wanted, 0)
        if sent < 0:
            if ctypes.get_errno() in (11, 105):  # EAGAIN, ENOBUFS
                time.sleep(0.001)
                continue
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        done, at, paced = done + sent, (at + sent) % len(rounds), paced + sent
        if rate:
            ahead = origin + paced / rate - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
            elif ahead < -0.02:
                # Late: no burst to catch up.
                origin, paced = time.monotonic(), 0
    return done, time.monotonic() - started


def main():
    path, rate, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    packets = []
    with open(path, "rb") as source:
        while head := source.read(2):
            packets.append(source.read(struct.unpack("!H", head)[0]))
    sent, seconds = send(packets, rate, count)
    print(json.dumps({"sent": sent, "seconds": seconds}))


async def run(packets, rate, count):
    """The same as a process of its own; returns how many left and the seconds."""
    with tempfile.NamedTemporaryFile(prefix="media-relay-flood-") as file:
        for data in packets:
            file.write(struct.pack("!H", len(data)) + data)
        file.flush()
        process = await asyncio.create_subprocess_exec(
            sys.executable, os.path.abspath(__file__), file.name, str(rate), str(count), stdout=asyncio.subprocess.PIPE)
        output, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"the flood ended with code {process.returncode}")
    result = json.loads(output)
    return result["sent"], result["seconds"]


if __name__ == "__main__":
    main()
