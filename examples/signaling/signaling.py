"""Users, their devices, and the calls that concern them: what a signaling server knows.

Owns who is online and which device is told what. What a call is and how it ends the relay decides; this passes it on.
No HTTP here: `server.py` has that.
"""
import datetime
import itertools
import json
import pathlib
import queue
import secrets
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients/python"))

import mediarelay  # noqa: E402

LOG_LENGTH = 50
USERS, DEVICES, STREAM_LENGTH = 1000, 16, 1000
END = None  # The last message of a stream.


class Device:
    """One tab of a user: it is online while it reads a stream."""

    def __init__(self, uid):
        self.uid, self.id, self.session = uid, f"tab-{secrets.token_hex(4)}", secrets.token_urlsafe(24)
        # A queue for each stream: an old one that nobody reads any more must not take what is meant for its successor.
        self.streams = []

    def tell(self, kind, **fields):
        for stream in self.streams:
            if stream.qsize() < STREAM_LENGTH:
                stream.put({"kind": kind, **fields})
            else:
                stream.put(END)  # It is not read. The next one begins with what is true then.

    def end(self):
        for stream in self.streams:
            stream.put(END)


class Call:
    """A call that goes on: what `call.initiated` said of it, and whether it still rings."""

    def __init__(self, data, rings=True):
        self.data, self.rings = data, rings

    @property
    def people(self):
        return {self.data["callerUid"], *self.data["callees"]}


class Refusal(Exception):
    """An answer that is not a success."""

    def __init__(self, status, detail, **members):
        super().__init__(detail)
        self.status, self.members = status, {"detail": detail, **members}


class Signaling:
    """Users, their devices, and the calls that concern them. Any thread; one lock."""

    def __init__(self, relay, window_ms):
        self.relay, self.window_ms = relay, window_ms
        self.lock = threading.RLock()
        self.devices = {}  # by session
        self.users = {}  # uid → its devices; who was here once stays known
        self.calls = {}  # room → Call, while it goes on

    # MARK: Devices

    def log_in(self, uid):
        """A product checks a password here."""
        with self.lock:
            if uid not in self.users and len(self.users) >= USERS:
                raise Refusal(503, f"There are {USERS} users already.")
            devices = self.users.setdefault(uid, [])
            if len(devices) >= DEVICES:
                gone = next((device for device in devices if not device.streams), None)
                if gone is None:
                    raise Refusal(503, f"{uid} has {DEVICES} devices online already.")
                self.forget(gone)
            device = Device(uid)
            devices.append(device)
            self.devices[device.session] = device
            return device

    def forget(self, device):
        self.devices.pop(device.session, None)
        if device in self.users.get(device.uid, []):
            self.users[device.uid].remove(device)

    def log_out(self, device):
        """The user goes, on this device. A closed tab is no log-out: the user may be called still, and be pushed to."""
        with self.lock:
            self.forget(device)
            device.end()
            device.streams.clear()
            self.tell_presence()
            is_gone = not self.online(device.uid)
        if is_gone:
            self.relay.logout(device.uid)

    def came(self, device):
        """The device reads a stream, which is returned: it is told what is true now."""
        stream = queue.SimpleQueue()
        with self.lock:
            device.streams.append(stream)
            device.tell("hello", uid=device.uid, device=device.id)
            self.tell_presence()
            for room, call in self.calls.items():
                if call.rings and device.uid in call.data["callees"]:
                    self.ring(device, room, call)
        return stream

    def went(self, device, stream):
        with self.lock:
            if stream in device.streams:
                device.streams.remove(stream)
            self.tell_presence()

    def online(self, uid):
        return [device for device in self.users.get(uid, []) if device.streams]

    def tell_presence(self):
        people = [{"uid": uid, "online": bool(self.online(uid))} for uid in sorted(self.users)]
        for uid in self.users:
            for device in self.online(uid):
                device.tell("presence", people=people)

    # MARK: Calls

    def place(self, device, callee, media):
        """The call is a room with a ring. The answer holds the caller's token; everything else comes as events."""
        ring = {"caller": device.uid, "callees": [callee], "callerName": device.uid}
        if self.window_ms:
            ring["windowMs"] = self.window_ms
        room = self.relay.create_room(kind="peer", media=media, ring=ring)["id"]
        return {"room": room, "token": self.relay.participant_token(room, device.uid, device.id)}

    def ring(self, device, room, call):
        token, data = self.relay.participant_token(room, device.uid, device.id), call.data
        device.tell(
            "ring", room=room, token=token, caller=data["callerUid"], name=data["callerName"], media=data["callType"])

    def receive(self, event):
        """An event of the relay, from its stream or from a webhook. May come twice: a repetition changes nothing."""
        kind, room, data = event["type"], event.get("roomId"), event["data"]
        with self.lock:
            if kind == "call.initiated":
                self.note_call(room, data)
            call = self.calls.get(room)
            if call is None:
                return
            if kind == "call.answered":
                call.rings = False
            for uid in call.people:
                for device in self.online(uid):
                    device.tell("event", event=event)
            if kind == "call.ended":
                del self.calls[room]

    def note_call(self, room, data):
        if room in self.calls:
            return
        self.calls[room] = call = Call(data)
        for uid in data["callees"]:
            for device in self.online(uid):
                self.ring(device, room, call)
            if not self.online(uid):
                threading.Thread(target=self.push, args=(uid, "phone", room, data), daemon=True).start()

    def push(self, uid, device, room, payload):
        """HERE A PRODUCT SENDS ITS PUSH: APNs (VoIP), FCM or Web Push, to each device of `uid` that is not online.

        `payload` is the data of `call.initiated`: all that a phone needs to ring, without asking anybody. Once the push
        service has taken it the relay is told, so that the call's record shows it.
        """
        print(f"push to {uid}'s {device}: {json.dumps(payload)}", flush=True)
        try:
            self.relay.pushed(room, uid, device)
        except (mediarelay.Problem, mediarelay.Unreachable) as error:
            print(f"push: not noted: {error}", flush=True)

    def log(self, uid):
        """The user's newest calls, from the relay's records."""
        return [{
            "room": record["roomId"], "caller": record["ring"]["caller"],
            "callees": [callee["uid"] for callee in record["ring"]["callees"]], "media": record["media"],
            "at": record["createdAt"], "durationMs": record["durationMs"], "status": record["view"]["status"],
        } for record in itertools.islice(self.relay.calls(uid=uid), LOG_LENGTH) if "ring" in record]

    # MARK: Following the relay

    def resume(self):
        """Calls that go on, and the cursor to follow from: this server keeps nothing over a restart."""
        rooms, seq = self.relay.rooms()
        with self.lock:
            for room in rooms:
                ring = room.get("ring")
                if ring is None or room["status"] == "ended":
                    continue
                self.calls[room["id"]] = Call({
                    "callerUid": ring["caller"], "callerName": ring["caller"], "callType": room["media"],
                    "callees": [callee["uid"] for callee in ring["callees"]],
                    "initiatedAtMs": int(datetime.datetime.fromisoformat(room["createdAt"]).timestamp() * 1000),
                }, rings=room["status"] == "initiated")
        return seq

    def follow(self, seq):
        for event in self.relay.events(after=seq):
            self.receive(event)
