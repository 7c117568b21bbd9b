"""Recordings of real calls: what ffmpeg reads of the files, how sound and picture lie in time, and what a full disk and a dead worker cost.

A client that is recorded flashes white and beeps in the same moment, once a second: where flash and beep are in its two files, with the
offsets that the index tells, is lip sync.
"""
import array
import asyncio
import ctypes
import json
import math
import os
import pathlib
import signal
import stat
import subprocess
import tempfile
import time

import av

from prompt_call import strength
from relay import Relay, check, participant, token
from wrtc_client import HEIGHT, RATE, WIDTH, WrtcClient

# One beat: a tone and a white picture for so long, once a second.
BEAT = 0.2
TONE = {"alice": 700, "bob": 1000}
CLONE_NEWNS = 0x00020000


class Beater(WrtcClient):
    """Beeps and flashes at whole seconds of the monotonic clock."""

    async def play_tone(self):
        import webrtc
        writer = self.audio.writable.get_writer()
        frequency = TONE[self.uid]
        loud = [array.array("h", [
            int(9000 * math.sin(2 * math.pi * frequency * (block * 480 + index) / 48000)) for index in range(480)]).tobytes()
            for block in range(100)]
        silent = bytes(960)
        # The block at whose time the clock shows it, so that a late task does not shift the beat.
        started = math.ceil(time.monotonic())
        await asyncio.sleep(started - time.monotonic())
        index = 0
        while True:
            block = loud[index % 100] if index % 100 < BEAT * 100 else silent
            await writer.write(webrtc.AudioData(webrtc.AudioDataInit(
                format="s16", sample_rate=48000, number_of_frames=480, number_of_channels=1,
                timestamp=index * 10_000, data=block)))
            index += 1
            await asyncio.sleep(max(0, started + index * 0.01 - time.monotonic()))

    async def play_pictures(self):
        import webrtc
        writer = self.video.writable.get_writer()
        chroma = bytes([128]) * (WIDTH * HEIGHT // 2)
        dark = [bytes([40 + (x + step * 16) % WIDTH * 60 // WIDTH for x in range(WIDTH)]) * HEIGHT + chroma for step in range(RATE)]
        white = bytes([235]) * (WIDTH * HEIGHT) + chroma
        started = math.ceil(time.monotonic())
        await asyncio.sleep(started - time.monotonic())
        index = 0
        while True:
            frame = white if index % RATE < BEAT * RATE else dark[index % RATE]
            await writer.write(webrtc.VideoFrame(frame, webrtc.VideoFrameBufferInit(
                format="I420", coded_width=WIDTH, coded_height=HEIGHT,
                timestamp=int((started + index / RATE) * 1_000_000))))
            index += 1
            await asyncio.sleep(max(0, started + index / RATE - time.monotonic()))


def decode_all(path):
    """ffmpeg decodes every frame and says nothing."""
    done = subprocess.run(
        ["ffmpeg", "-nostdin", "-v", "warning", "-xerror", "-i", path, "-f", "null", "-"], capture_output=True, text=True, timeout=60)
    check(done.returncode == 0 and not done.stderr.strip(), f"ffmpeg says of {path}: {done.stderr[-800:]}")


def probe(path):
    done = subprocess.run(
        ["ffprobe", "-v", "error", "-show_streams", "-show_format", "-count_packets", "-of", "json", path],
        capture_output=True, text=True, timeout=60)
    check(done.returncode == 0 and not done.stderr.strip(), f"ffprobe says of {path}: {done.stderr[-800:]}")
    return json.loads(done.stdout)


def sound(path):
    """Samples at 48 kHz."""
    with av.open(path) as container:
        resampler = av.AudioResampler(format="s16", layout="mono", rate=48000)
        samples = array.array("h")
        for frame in container.decode(audio=0):
            for part in resampler.resample(frame):
                samples.extend(array.array("h", bytes(part.planes[0])[:part.samples * 2]))
    return samples


def beeps(path, frequency):
    """When it begins to beep, in seconds of the file, to 2 ms."""
    samples, found, was = sound(path), [], True
    for at in range(0, len(samples) - 480, 96):
        is_loud = strength(samples[at:at + 480], 48000, frequency) > 4000
        if is_loud and not was:
            found.append((at + 240) / 48000)
        was = is_loud
    return found


def flashes(path):
    """When the picture becomes white, in seconds of the file; and how many pictures there are."""
    found, was, count = [], True, 0
    with av.open(path) as container:
        for frame in container.decode(video=0):
            count += 1
            is_white = sum(bytes(frame.planes[0])[:WIDTH * 8:8]) / WIDTH > 180
            if is_white and not was:
                found.append(float(frame.pts * frame.time_base))
            was = is_white
    return found, count


def folder_of(base, event):
    path = pathlib.Path(base, event["data"]["folder"])
    check(path.parent == pathlib.Path(base) and path.is_dir(), f"no folder {path}")
    return path, json.loads((path / "recording.json").read_text())


async def call(relay, seconds_before=2.0, codec=None):
    room = relay.create_room(kind="peer", media="video", **({"videoCodec": codec} if codec else {}))
    clients = [Beater(relay, room, uid, participant(room, uid)) for uid in TONE]
    for client in clients:
        await client.prepare("joined")
    await asyncio.sleep(seconds_before)
    return room, clients


async def recorded_call(relay, base):
    room, clients = await call(relay)
    bearer = token({"aud": "media-relay", "sub": "alice", "device": "test", "room": room, "grants": {"record": True}})
    refused = await asyncio.to_thread(relay.ask, "POST", f"/v1/rooms/{room}/recordings", {}, participant(room, "bob"))
    refused.expect(403)
    made = (await asyncio.to_thread(
        relay.ask, "POST", f"/v1/rooms/{room}/recordings", {"mix": True}, bearer)).expect(201)
    check(relay.room(room)["recording"]["recordingId"] == made.json["recordingId"], "the room does not show it")
    (await asyncio.to_thread(relay.admin, "POST", f"/v1/rooms/{room}/recordings")).expect(409)
    await asyncio.sleep(6)
    (await asyncio.to_thread(relay.ask, "DELETE", made.headers["Location"], None, bearer)).expect(200)
    event = relay.await_event("recording.ended", room, 10)
    for client in clients:
        await client.leave()
        await client.close()
    path, index = folder_of(base, event)
    check(event["reason"] == "stopped" and event["data"]["droppedPackets"] == 0, f"it ended as {event}")
    check(index["state"] == "ended" and index["reason"] == "stopped", f"the index says {index}")
    files = {file["file"]: file for file in index["files"]}
    check({file["file"] for file in event["data"]["files"]} == set(files), f"told {event['data']['files']}")
    wanted = {f"0{number}-{uid}-{kind}" for number, uid in ((1, None), (2, None)) for kind in ("audio.ogg", "video.webm") for uid in TONE}
    check(len(files) == 5 and set(files) - {"mix.ogg"} <= wanted, f"the files are {sorted(files)}")
    check(stat.S_IMODE(path.stat().st_mode) == 0o700, "others may look into the folder")
    notes, ends = [], []
    for name, file in files.items():
        check(stat.S_IMODE((path / name).stat().st_mode) == 0o600, f"others may read {name}")
        check((path / name).stat().st_size == file["bytes"], f"{name} is not as large as told")
        decode_all(path / name)
        shown = probe(path / name)
        length = float(shown["format"]["duration"])
        check(abs(length - file["durationMs"] / 1000) < 0.04, f"ffprobe says {length} s of {name}, the index {file['durationMs']} ms")
        if name != "mix.ogg":
            check(file["clock"] == "sender-reports" and file["packetsLost"] == 0, f"{file}")
            ends.append(file["offsetMs"] / 1000 + length)
    check(max(ends) - min(ends) < 0.25, f"the files end at {ends}")
    for uid, frequency in TONE.items():
        audio, = [file for file in files.values() if file.get("uid") == uid and file["kind"] == "audio"]
        video, = [file for file in files.values() if file.get("uid") == uid and file["kind"] == "video"]
        heard = [at + audio["offsetMs"] / 1000 for at in beeps(path / audio["file"], frequency)]
        seen, pictures = flashes(path / video["file"])
        seen = [at + video["offsetMs"] / 1000 for at in seen]
        check(pictures == video["frames"] and pictures > 90, f"{pictures} pictures, {video}")
        pairs = [(a, v) for a in heard for v in seen if abs(a - v) < 0.4]
        check(len(heard) >= 4 and len(pairs) >= 4, f"{uid}: beeps at {heard}, flashes at {seen}")
        # The client's own sound is later than its picture by what its encoder holds back; both of its clients by the same.
        skew = [a - v for a, v in pairs]
        check(max(map(abs, skew)) < 0.06, f"{uid}: sound behind the picture by {skew}")
        for kind in ("audio", "video"):
            moments = heard if kind == "audio" else seen
            steps = [after - before for before, after in zip(moments, moments[1:])]
            check(all(abs(step - round(step)) < 0.06 for step in steps), f"{uid}'s {kind} beats every {steps} s")
        notes.append(f"{uid} sound {sum(skew) / len(skew) * 1000:+.0f} ms")
    # Both beat at the same moment: in the mix both are heard there, and nothing between.
    mixed = [beeps(path / "mix.ogg", frequency) for frequency in TONE.values()]
    check(all(len(times) >= 4 for times in mixed), f"in the mix there are {mixed}")
    check(all(min(abs(a - b) for b in mixed[1]) < 0.06 for a in mixed[0]), f"the voices are apart: {mixed}")
    return f"{', '.join(notes)}; mix {files['mix.ogg']['durationMs']} ms"


def recorded():
    with tempfile.TemporaryDirectory() as base, Relay(options=["--recordings", base]) as relay:
        return asyncio.run(recorded_call(relay, base))


async def on_small_disk(relay, base):
    room, clients = await call(relay, 1)
    (await asyncio.to_thread(relay.admin, "POST", f"/v1/rooms/{room}/recordings")).expect(201)
    event = await asyncio.to_thread(relay.await_event, "recording.ended", room, 40, reason="disk-full")
    before = [await client.totals() for client in clients]
    await asyncio.sleep(1)
    for client, then in zip(clients, before):
        totals = await client.totals()
        check(totals["framesDecoded"] > then["framesDecoded"] + 10, f"the call of {client.uid} stands: {then} {totals}")
    path, index = folder_of(base, event)
    check(index["state"] == "ended" and index["reason"] == "disk-full", f"the index says {index}")
    for file in index["files"]:
        decode_all(path / file["file"])
    check(not (path / ".reserve").exists(), "its lock is left")
    refused = (await asyncio.to_thread(relay.admin, "POST", f"/v1/rooms/{room}/recordings")).expect(201)
    relay.await_event("recording.ended", room, 10, reason="disk-full")
    check(refused.json["recordingId"] != event["data"]["recordingId"], "the same again")
    for client in clients:
        await client.leave()
        await client.close()
    return f"ended with {event['data']['bytes']} bytes"


def recording_disk_full():
    """A disk of 1 MiB, mounted where nobody else sees it."""
    check(ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) == 0, "no mount namespace of its own")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    with tempfile.TemporaryDirectory() as base:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=768k", "tmpfs", base], check=True)
        try:
            with Relay(options=["--recordings", base]) as relay:
                return asyncio.run(on_small_disk(relay, base))
        finally:
            subprocess.run(["umount", base], check=True)


async def with_dead_worker(relay, base):
    room, clients = await call(relay)
    (await asyncio.to_thread(relay.admin, "POST", f"/v1/rooms/{room}/recordings")).expect(201)
    await asyncio.sleep(5)
    worker, = relay.worker_pids()
    os.kill(worker, signal.SIGKILL)
    event = await asyncio.to_thread(relay.await_event, "recording.ended", room, 10)
    check(event["reason"] == "worker-lost", f"it ended as {event}")
    for client in clients:
        await client.close()
    path, index = folder_of(base, event)
    deadline = time.monotonic() + 10
    while index["state"] != "ended":
        check(time.monotonic() < deadline, f"nobody marked it as ended: {index}")
        await asyncio.sleep(0.05)
        index = json.loads((path / "recording.json").read_text())
    check(index["reason"] == "worker-lost", f"the index says {index}")
    lengths = []
    for name in sorted(file.name for file in path.iterdir() if file.suffix in (".ogg", ".webm")):
        decode_all(path / name)
        lengths.append(len(sound(path / name)) / 48000 if name.endswith(".ogg") else flashes(path / name)[1] / RATE)
    check(len(lengths) == 4 and min(lengths) > 3, f"of 5 s there are {lengths}")
    return f"of 5 s there are {min(lengths):.1f} s"


def recording_worker_killed():
    with tempfile.TemporaryDirectory() as base, Relay(options=["--recordings", base]) as relay:
        return asyncio.run(with_dead_worker(relay, base))
