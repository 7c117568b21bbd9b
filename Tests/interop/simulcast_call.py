"""A browser that sends three streams of one picture, and one that gets the stream it asks for: what it decodes meanwhile."""
import json
import time

from browser import Page, chromium, open_tab
from relay import Relay, check, participant

# A quarter, a half and the whole of the camera's picture: Chromium sends three streams from 960 x 540 up.
HEIGHTS = [135, 270, 540]
# Longest time between two shown frames around a change, and how often it is changed each way.
FREEZE_MS, ROUNDS = 200, 3
# What nobody wants for 10 s is not sent any more.
REST_SECONDS = 14

# Runs in a tab of the relay's own origin. `frames`: when each shown frame came and how high it is.
SCRIPT = """
globalThis.simulcast = {
  frames: [],
  async start({ room, token, sends, codec }) {
    const connection = new RTCPeerConnection({ bundlePolicy: "max-bundle" });
    Object.assign(this, { connection, token });
    if (sends) {
      const stream = await navigator.mediaDevices.getUserMedia({
        audio: true, video: { width: 960, height: 540, frameRate: 20 } });
      connection.addTransceiver(stream.getAudioTracks()[0], { direction: "sendrecv", streams: [stream] });
      connection.addTransceiver(stream.getVideoTracks()[0], {
        direction: "sendrecv", streams: [stream],
        sendEncodings: [
          { rid: "q", scaleResolutionDownBy: 4 }, { rid: "h", scaleResolutionDownBy: 2 }, { rid: "f" }] });
    } else {
      connection.addTransceiver("audio", { direction: "recvonly" });
      connection.addTransceiver("video", { direction: "recvonly" });
      connection.ontrack = ({ track }) => track.kind === "video" && this.watch(track);
    }
    await connection.setLocalDescription();
    const answer = await fetch(`/v1/rooms/${room}/sessions?state=joined`, {
      method: "POST", body: connection.localDescription.sdp,
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/sdp" } });
    if (!answer.ok) throw new Error(await answer.text());
    this.location = answer.headers.get("Location");
    this.answer = await answer.text();
    await connection.setRemoteDescription({ type: "answer", sdp: this.answer });
    return this.answer;
  },
  async watch(track) {
    const reader = new MediaStreamTrackProcessor({ track }).readable.getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      this.frames.push([performance.now(), value.displayHeight]);
      value.close();
    }
  },
  async wish(height) {
    const mid = this.connection.getTransceivers().find(({ receiver }) => receiver.track.kind === "video").mid;
    const answer = await fetch(`${this.location}/slots`, {
      method: "PUT", body: JSON.stringify({ slots: [{ mid, height }] }),
      headers: { Authorization: `Bearer ${this.token}`, "Content-Type": "application/json" } });
    if (!answer.ok) throw new Error(await answer.text());
    return performance.now();
  },
  async stats(type) {
    return [...(await this.connection.getStats()).values()].filter(
      (entry) => entry.type === type && entry.kind === "video");
  },
};
"""


def started(page, room, name, sends):
    page.until("document.readyState === 'complete' && location.pathname === '/'", 20, "page")
    page.evaluate(SCRIPT)
    options = json.dumps({"room": room, "token": participant(room, name), "sends": sends})
    return page.evaluate(f"simulcast.start({options})", wait=True)


def received(page):
    (inbound,) = page.evaluate("simulcast.stats('inbound-rtp')", wait=True)
    return inbound


def sent(page):
    """What is sent of each stream, by its id."""
    return {entry["rid"]: entry for entry in page.evaluate("simulcast.stats('outbound-rtp')", wait=True)}


def until_shown(page, sender, height, seconds):
    deadline = time.monotonic() + seconds
    while page.evaluate("simulcast.frames.at(-1)[1]") != height:
        if time.monotonic() > deadline:
            check(False, f"no picture of {height} lines within {seconds} s; {received(page)}, {sent(sender)}")
        time.sleep(0.05)


def change(page, sender, height, seconds=8):
    """Wishes for a height; waits until it is shown. Milliseconds until then, and the longest gap between frames."""
    asked = page.evaluate(f"simulcast.wish({height})", wait=True)
    until_shown(page, sender, height, seconds)
    time.sleep(1)
    frames = page.evaluate("simulcast.frames")
    shown = next(at for at, lines in frames if at > asked and lines == height)
    near = [at for at, _lines in frames if asked - 200 < at < shown + 1000]
    return shown - asked, max(after - before for before, after in zip(near, near[1:]))


def simulcast_switch():
    """Three streams into a group; the receiver goes up and down by the height it wishes for, and no frame is missed."""
    with Relay() as relay:
        room = relay.create_room(id="simulcast", kind="group", media="video")
        address = f"http://{relay.http}/?tab="
        with chromium(address + "sender"):
            open_tab(address + "receiver")
            sender, receiver = Page("tab=sender"), Page("tab=receiver")
            answer = started(sender, room, "sender", True)
            check("a=simulcast:recv q;h;f\r\n" in answer, f"simulcast was not accepted: {answer}")
            started(receiver, room, "receiver", False)
            receiver.until("simulcast.frames.length > 5", 20, "picture")
            # The streams' own encoder takes its time to reach the highest.
            until_shown(receiver, sender, HEIGHTS[2], 30)
            waits, gaps = [], []
            for _ in range(ROUNDS):
                for height in (HEIGHTS[0], HEIGHTS[2]):
                    wait, gap = change(receiver, sender, height)
                    waits.append(wait)
                    gaps.append(gap)
            change(receiver, sender, HEIGHTS[0])
            time.sleep(REST_SECONDS)
            encoded = [sent(sender)["f"]["framesEncoded"]]
            time.sleep(2)
            encoded.append(sent(sender)["f"]["framesEncoded"])
            wait, _gap = change(receiver, sender, HEIGHTS[2], 10)
            figures = received(receiver)
            streams = sent(sender)
            for page in (sender, receiver):
                page.close()
        check(set(streams) == {"q", "h", "f"} and all(s["framesEncoded"] > 50 for s in streams.values()), f"{streams}")
        check(figures["packetsLost"] == 0, f"the slot has gaps: {figures}")
        check(figures.get("framesDropped", 0) <= figures["framesDecoded"] // 50, f"frames were dropped: {figures}")
        check(figures["pliCount"] == 0, f"the decoder asked for a key frame: {figures}")
        check(encoded[0] == encoded[1], f"a stream is sent that nobody wants: {encoded}")
        check(max(gaps) <= FREEZE_MS, f"longest gaps at the changes: {[round(gap) for gap in gaps]} ms")
        return (
            f"{2 * ROUNDS} changes; shown after {max(waits):.0f} ms at most, after a rest {wait:.0f} ms, longest gap "
            f"{max(gaps):.0f} ms; "
            f"{figures['framesDecoded']} frames, {figures['freezeCount']} freezes")
