"""Two libdatachannel clients: a third ICE and DTLS implementation, without header extensions and only with signalled SSRCs.

Run by a Python ≥ 3.12 of its own (run.py makes its environment); sends raw RTP of Opus size and counts what comes.
"""
import struct
import threading
import time

from loss_proxy import LossGate
from relay import Relay, check, check_end, check_order, participant

PACKETS = 200


class Client:
    def __init__(self, relay, room, uid, ssrc):
        import libdatachannel

        self.relay, self.uid, self.ssrc = relay, uid, ssrc
        self.bearer = participant(room, uid)
        self.room = room
        self.received = []
        self.connected = threading.Event()
        configuration = libdatachannel.Configuration()
        configuration.disable_auto_negotiation = True
        self.pc = libdatachannel.PeerConnection(configuration)
        self.pc.on_state_change(
            lambda state: self.connected.set() if state == libdatachannel.PeerConnection.State.Connected else None)
        media = libdatachannel.Description.Audio("0", libdatachannel.Description.Direction.SendRecv)
        media.add_opus_codec(111)
        media.add_ssrc(ssrc, uid, uid, uid)
        self.track = self.pc.add_track(media)
        self.track.on_message(lambda data: self.received.append(bytes(data)) if isinstance(data, (bytes, bytearray)) else None)
        self.libdatachannel = libdatachannel

    def prepare(self):
        self.pc.set_local_description(self.libdatachannel.Description.Type.Offer)
        deadline = time.monotonic() + 3
        while self.pc.local_description() is None:
            check(time.monotonic() < deadline, "libdatachannel made no offer")
            time.sleep(0.01)
        posted = time.monotonic()
        self.location, answer = self.relay.prepare(self.room, self.bearer, str(self.pc.local_description()))
        self.pc.set_remote_description(self.libdatachannel.Description(answer, self.libdatachannel.Description.Type.Answer))
        check(self.connected.wait(10), f"{self.uid} is not connected 10 s after its POST")
        self.seconds = time.monotonic() - posted

    def join(self):
        self.relay.ask("POST", self.location + "/join", None, self.bearer).expect(200)

    def send(self, index):
        header = struct.pack("!BBHII", 0x80, 111, (1000 + index) & 0xFFFF, index * 960, self.ssrc)
        self.track.send(header + struct.pack("!I", index) + bytes(60))

    def indexes(self):
        """The numbers inside the media packets received."""
        return [
            struct.unpack("!I", packet[12:16])[0] for packet in self.received
            if len(packet) == 76 and packet[1] & 0x7F == 111]


def libdatachannel_call():
    with Relay() as relay:
        room = relay.create_room(kind="peer", media="audio")
        alice, bob = Client(relay, room, "alice", 1111), Client(relay, room, "bob", 2222)
        for client in (alice, bob):
            client.prepare()
            check(client.seconds < 1, f"{client.uid} connected {client.seconds:.2f} s after its POST")
            relay.await_event("participant.prepared", room, 2, uid=client.uid)
        for client in (alice, bob):
            client.join()
        relay.await_event("participant.joined", room, 2, uid="bob")
        for index in range(PACKETS):
            alice.send(index)
            bob.send(index)
            time.sleep(0.01)
        time.sleep(0.3)
        for client in (alice, bob):
            check(
                client.indexes() == list(range(PACKETS)),
                f"{client.uid} received {len(client.indexes())} of {PACKETS} packets, or out of order")
        relay.ask("DELETE", alice.location, None, alice.bearer).expect(200)
        relay.await_event("room.closed", room, 2)
        check_order(relay.events())
        check_end(relay.events(room=room), "alice", "bob")
        for client in (alice, bob):
            client.pc.close()
        return f"{PACKETS} packets each way; {max(alice.seconds, bob.seconds) * 1000:.0f} ms to connect"


def rebinding_libdatachannel():
    """A NAT gives both another port in the middle of a call; libdatachannel does not nominate again."""
    gate = LossGate(("127.0.0.2", 40000), ("127.0.0.1", 40000), 0, seed=1)
    gate.is_lossy = False
    with Relay(announce=["127.0.0.2"], options=["--media-tcp", "off"]) as relay:
        room = relay.create_room(kind="peer", media="audio")
        alice, bob = Client(relay, room, "alice", 1111), Client(relay, room, "bob", 2222)
        for client in (alice, bob):
            client.prepare()
        for client in (alice, bob):
            client.join()
        relay.await_event("participant.joined", room, 2, uid="bob")
        index, rebound, again = 0, None, None
        while again is None:
            for client in (alice, bob):
                client.send(index)
            index += 1
            time.sleep(0.01)
            if index == PACKETS:
                gate.rebind()
                rebound = time.monotonic()
                counts = [len(client.received) for client in (alice, bob)]
            if rebound is None:
                continue
            if all(len(client.received) > count + 50 for client, count in zip((alice, bob), counts)):
                again = time.monotonic() - rebound
            check(time.monotonic() - rebound < 15, f"no media 15 s after the rebinding: {counts}")
        relay.ask("DELETE", alice.location, None, alice.bearer).expect(200)
        relay.await_event("room.closed", room, 2)
        for client in (alice, bob):
            client.pc.close()
        gate.stop()
        return f"media again after {again - 0.5:.1f} s"
