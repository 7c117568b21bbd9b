"""What passes on loopback between the relay's media port and anybody, read from the kernel with the kernel's times.

One packet socket, one thread. It sees what the relay sends to whom (so an answer to an attacker cannot hide), and of the
victims' call how long each audio packet lay in the relay and the gaps between them. Floods are marked by their TTL and filtered
in the kernel: they never reach this program.
"""
import collections
import ctypes
import socket
import struct
import threading
import time

# Datagrams of attackers carry this TTL.
MARK = 33
VICTIMS = ("127.0.0.1",)
# Addresses of participants of their own, whom the relay may answer: hostile ones with keys, and some without.
GUESTS = ("127.0.0.70", "127.0.0.71", "127.0.0.72", "127.0.0.73", "127.0.0.77")

SO_ATTACH_FILTER, SO_TIMESTAMPNS, SO_RCVBUFFORCE, PACKET_OUTGOING = 26, 35, 33, 4
ETH_P_IP = 0x0800


def bpf():
    """UDP over IPv4 from the victims' and the relay's address, each datagram once, without the marked ones."""
    code = [
        (0x28, 0, 0, 0xFFFFF004),       # packet type (outgoing: the same datagram comes in as well)
        (0x15, 5 + len(VICTIMS), 0, PACKET_OUTGOING),
        (0x30, 0, 0, 8),                # TTL
        (0x15, 3 + len(VICTIMS), 0, MARK),
        (0x30, 0, 0, 9),                # protocol
        (0x15, 0, 1 + len(VICTIMS), 17),
        (0x20, 0, 0, 12),               # source
        *((0x15, len(VICTIMS) - index, 0, struct.unpack("!I", socket.inet_aton(address))[0])
          for index, address in enumerate(VICTIMS)),
        (0x06, 0, 0, 0),
        (0x06, 0, 0, 2048),
    ]
    program = b"".join(struct.pack("HBBI", *line) for line in code)
    buffer = ctypes.create_string_buffer(program, len(program))
    return struct.pack("HxxxxxxP", len(code), ctypes.addressof(buffer)), buffer


class Wire(threading.Thread):
    def __init__(self, port, audio_type):
        super().__init__(daemon=True)
        self.port, self.audio_type = port, audio_type
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP))
        filter_program, self.buffer = bpf()
        self.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, filter_program)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
        self.socket.settimeout(0.2)
        self.lock = threading.Lock()
        self.sent_to = collections.Counter()        # (address, port) -> bytes
        self.packets_to = collections.Counter()
        self.media_to = collections.Counter()       # RTP and RTCP only
        self.last_to = {}                           # (address, port) -> time
        self.audio_in = collections.defaultdict(list)   # victim's port -> (time, RTP timestamp)
        self.audio_out = collections.defaultdict(list)
        self.ports = {}                             # user fragment of a victim -> its port
        self.check_times = {}
        self.check_delays = []                      # (time, seconds) of victims' checks
        self.kept, self.is_keeping = [], False      # victims' own datagrams, for replays
        self.is_running = True
        self.start()

    def run(self):
        while self.is_running:
            try:
                data, ancillary, _flags, _address = self.socket.recvmsg(2048, 64)
            except TimeoutError:
                continue
            except OSError:
                return
            if len(data) < 29:
                continue
            now = time.time()
            for level, kind, value in ancillary:
                if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(value) >= 16:
                    seconds, nanoseconds = struct.unpack("qq", value[:16])
                    now = seconds + nanoseconds / 1e9
            start = (data[0] & 15) * 4
            source, target, length = struct.unpack_from("!HHH", data, start)
            payload = data[start + 8:start + length]
            with self.lock:
                if source == self.port:
                    self.left(now, (socket.inet_ntoa(data[16:20]), target), payload)
                elif target == self.port:
                    self.came(now, (socket.inet_ntoa(data[12:16]), source), payload)

    def left(self, now, peer, payload):
        self.sent_to[peer] += len(payload)
        self.packets_to[peer] += 1
        self.last_to[peer] = now
        if not payload:
            return
        if payload[0] & 0xC0 == 0x80:
            self.media_to[peer] += 1
            if peer[0] in VICTIMS and len(payload) > 12 and payload[1] & 127 == self.audio_type:
                self.audio_out[peer[1]].append((now, struct.unpack_from("!I", payload, 4)[0]))
        elif payload[:2] == b"\x01\x01" and len(payload) >= 20:
            asked = self.check_times.pop(payload[8:20], None)
            if asked is not None:
                self.check_delays.append((now, now - asked))

    def came(self, now, peer, payload):
        port = peer[1]
        if self.is_keeping:
            self.kept.append((peer, payload))
        if not payload:
            return
        if payload[0] & 0xC0 == 0x80:
            if len(payload) > 12 and payload[1] & 127 == self.audio_type:
                self.audio_in[port].append((now, struct.unpack_from("!I", payload, 4)[0]))
        elif payload[:2] == b"\x00\x01" and len(payload) >= 24:
            self.check_times[payload[8:20]] = now
            kind, length = struct.unpack_from("!HH", payload, 20)
            if kind == 6 and b":" in payload[24:24 + length]:
                self.ports[payload[24:24 + length].split(b":")[1].decode(errors="replace")] = port

    def to(self, address):
        """Bytes and packets that the relay has sent to an address, all ports together."""
        with self.lock:
            return (sum(count for (to, _), count in self.sent_to.items() if to == address),
                    sum(count for (to, _), count in self.packets_to.items() if to == address))

    def to_others(self):
        """Bytes to strangers: neither victims nor guests."""
        with self.lock:
            return collections.Counter({peer: count for peer, count in self.sent_to.items() if peer[0] not in (*VICTIMS, *GUESTS)})

    def gap(self, since, until):
        """The longest time between two audio packets to a victim, the longest between two from one (what its own machine did to it),
        both in seconds, and how many came to them."""
        with self.lock:
            (sent, _), (received, count) = (longest_gap(ways, since, until) for ways in (self.audio_in, self.audio_out))
        return received, sent, count

    def gaps(self, since, until):
        """The 99th percentile of the times between two audio packets to a victim, and from one, in seconds."""
        with self.lock:
            return tuple(percentile(sorted(
                later - before for packets in ways.values() for (before, _), (later, _) in zip(packets, packets[1:])
                if since <= before and later <= until), 0.99) for ways in (self.audio_out, self.audio_in))

    def delays(self, since, until):
        """How long each audio packet of the call lay in the relay, sorted, in seconds."""
        found = []
        with self.lock:
            ways = [(self.audio_in[a], self.audio_out[b]) for a in self.audio_in for b in self.audio_out if a != b]
            for came, left in ways:
                came = [(moment, stamp) for moment, stamp in came if since <= moment <= until]
                left = [(moment, stamp) for moment, stamp in left if since <= moment <= until + 0.5]
                shift = step_between(came, left)
                if shift is None:
                    continue
                by_stamp = {stamp: moment for moment, stamp in left}
                for moment, stamp in came:
                    out = by_stamp.get((stamp + shift) & 0xFFFFFFFF)
                    if out is not None and out >= moment:
                        found.append(out - moment)
        return sorted(found)

    def checks(self, since):
        with self.lock:
            return sorted(delay for moment, delay in self.check_delays if moment >= since)

    def keep(self, is_keeping):
        """From now on notes what the victims send; gives what was noted when it stops."""
        with self.lock:
            self.is_keeping = is_keeping
            found, self.kept = self.kept, []
        return found

    def stop(self):
        self.is_running = False
        self.join()
        self.socket.close()


def longest_gap(ways, since, until):
    longest, count = 0.0, 0
    for packets in ways.values():
        times = [moment for moment, _ in packets if since - 0.2 <= moment <= until]
        if times:
            count += len(times)
            longest = max([longest, until - times[-1], *(later - before for before, later in zip(times, times[1:]))])
    return longest, count


def step_between(came, left):
    """The constant that the relay adds to the timestamps of a stream: the commonest difference of neighbours in time."""
    steps, index = collections.Counter(), 0
    for moment, stamp in came[:400]:
        while index < len(left) and left[index][0] < moment:
            index += 1
        for out, theirs in left[index:index + 3]:
            steps[(theirs - stamp) & 0xFFFFFFFF] += 1
    common = steps.most_common(1)
    return common[0][0] if common and common[0][1] > 10 else None


def percentile(values, share):
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0.0
