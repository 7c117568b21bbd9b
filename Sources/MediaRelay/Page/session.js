// A participant's session with the relay in a browser: everything between an RTCPeerConnection and the relay's public
// API.
//
// Owns the connection, its one offer and answer, joining, leaving, ICE restarts, own mute and hold, and its counters.
// Knows no page and no ringing. Used by the relay's demo page and by examples/signaling.

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// MARK: The API

/** A refusal of the relay (an RFC 9457 problem document) or of the network, in words. */
export class Refusal extends Error {
  constructor(message, problem = null) {
    super(message);
    this.problem = problem;
  }
}

/** `fetch`, with everything but success as a `Refusal`. */
export async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Refusal("The relay does not answer. Is it still running?");
  }
  if (response.ok) return response;
  const problem = await response.json().catch(() => null);
  throw new Refusal(problem?.detail ?? `The relay answered ${response.status}.`, problem);
}

/**
 * Reads Server-Sent Events and gives each one's JSON to `receive` until `signal` aborts or `isOver` says that no more
 * will come. The stream is read with fetch because a token belongs in a header. A break resumes behind the last event
 * seen. Returns the status of a refusal that will not change by itself, else null.
 */
export async function follow(
  path, { headers = {}, signal, receive, isOver = () => false, opened = () => {}, broken = () => {} },
) {
  let last = null;
  while (!signal.aborted && !isOver()) {
    try {
      const resume = last === null ? {} : { "Last-Event-ID": last };
      const response = await fetch(path, { headers: { ...headers, Accept: "text/event-stream", ...resume }, signal });
      if (!response.ok) {
        if (response.status < 500 && response.status !== 429) return response.status;
        throw new Error(`status ${response.status}`);
      }
      opened();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let buffer = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        buffer += value;
        for (let end = buffer.indexOf("\n\n"); end >= 0; end = buffer.indexOf("\n\n")) {
          const message = parseMessage(buffer.slice(0, end));
          buffer = buffer.slice(end + 2);
          if (message.id) last = message.id;
          if (message.data && !signal.aborted) receive(JSON.parse(message.data), message.event);
        }
      }
    } catch {
      if (signal.aborted) break;
    }
    if (isOver()) break;
    broken();
    await sleep(1000);
  }
  return null;
}

/** One server-sent event: its fields by name; several data lines are one text. */
function parseMessage(text) {
  const message = {};
  for (const line of text.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const name = line.slice(0, colon);
    const value = line.slice(colon + 1).replace(/^ /, "");
    message[name] = name === "data" && message.data !== undefined ? `${message.data}\n${value}` : value;
  }
  return message;
}

// MARK: Camera and microphone

const wishes = {
  video: { width: { ideal: 640 }, height: { ideal: 480 }, frameRate: { ideal: 30 } },
  audio: { echoCancellation: true, noiseSuppression: true },
};

/**
 * Microphone and camera as far as they are asked for; without a camera the microphone alone; without either an empty
 * stream. `problems` names what was missing.
 */
export async function openDevices({ video = true, audio = true } = {}) {
  const problems = [];
  if (!navigator.mediaDevices) {
    throw new Refusal("The browser gives camera and microphone only to pages from localhost or over HTTPS.");
  }
  const tries = [];
  if (video) tries.push(audio ? wishes : { video: wishes.video });
  if (audio) tries.push({ audio: wishes.audio });
  for (const wish of tries) {
    try {
      return { stream: await navigator.mediaDevices.getUserMedia(wish), problems };
    } catch (error) {
      problems.push(`${wish.video ? "camera" : "microphone"}: ${error.name}`);
    }
  }
  return { stream: new MediaStream(), problems };
}

// MARK: The session

/**
 * One participant in one room. The order of calls: `prepare`, `join`, `leave`; `send` whenever there are tracks.
 *
 * `progress(step)` is told "posted", "answered", "connected", "disconnected" and "failed" as they happen;
 * `received(mid, track)` each track of the answer, which is one slot for the whole session.
 */
export class Session {
  constructor({ room, token, progress = () => {}, received = () => {} }) {
    Object.assign(this, { room, token, progress, received });
    this.remote = new MediaStream();
    this.connection = null;
    this.senders = null;
    /** Where the session is at the relay, from `prepare` on; its last part is the participant's id. */
    this.location = null;
    this.isClosed = false;
  }

  get participant() { return this.location?.split("/").pop() ?? null; }

  authorized(headers = {}) { return { Authorization: `Bearer ${this.token}`, ...headers }; }

  /**
   * One offer, one answer, no servers, no candidates: the relay learns the address from the first check. `stream`'s
   * tracks are sent from the start (the relay's gate lets nothing through before the join); without one the senders
   * have no track. `query`: what the session shall be, `state=prepared` and so on. `slots`: how many more m-lines of a
   * kind only receive, in a group.
   */
  async prepare({ stream = null, query = "state=prepared", slots = {} } = {}) {
    const connection = new RTCPeerConnection({ iceServers: [], bundlePolicy: "max-bundle" });
    this.connection = connection;
    // Video is offered in an audio call, too: it may become a video call, and there is no second offer.
    const sender = (kind) => {
      const track = stream?.getTracks().find((candidate) => candidate.kind === kind);
      const streams = stream ? [stream] : [];
      return connection.addTransceiver(track ?? kind, { direction: "sendrecv", streams }).sender;
    };
    this.senders = { audio: sender("audio"), video: sender("video") };
    for (const kind of ["audio", "video"]) {
      for (let count = slots[kind] ?? 0; count > 0; count -= 1) connection.addTransceiver(kind, { direction: "recvonly" });
    }
    connection.ontrack = ({ track, transceiver }) => {
      this.remote.addTrack(track);
      this.received(transceiver.mid, track);
    };
    connection.onconnectionstatechange = () => this.noteConnection(connection.connectionState);
    await connection.setLocalDescription();
    this.progress("posted");
    const answer = await ask(`/v1/rooms/${this.room}/sessions?${query}`, {
      method: "POST", headers: this.authorized({ "Content-Type": "application/sdp" }),
      body: connection.localDescription.sdp,
    });
    this.location = answer.headers.get("Location");
    // Closed while the relay answered: what it made is not left behind.
    if (this.isClosed) return void this.leave();
    this.progress("answered");
    await connection.setRemoteDescription({ type: "answer", sdp: await answer.text() });
  }

  noteConnection(state) {
    if (this.isClosed) return;
    if (["connected", "disconnected", "failed"].includes(state)) this.progress(state);
    clearTimeout(this.restartTimer);
    // Another network, another way out: the relay answers new credentials from wherever they come.
    if (state === "failed") this.restart().catch(() => {});
    if (state === "disconnected") this.restartTimer = setTimeout(() => this.restart().catch(() => {}), 2000);
  }

  /** Sends these tracks from now on. */
  async send(stream) {
    await Promise.all(stream.getTracks().map((track) => this.senders[track.kind].replaceTrack(track)));
  }

  /** Opens the gate: the answer, where the room rings. `query`: `end=others` or `takeover=true`. */
  async join(query = "") {
    const path = `${this.location}/join${query && "?"}${query}`;
    const response = await ask(path, { method: "POST", headers: this.authorized() });
    return response.json();
  }

  /** Own mute and hold, as the others are told: `{audio: "on"|"muted", video: "on"|"muted", held: bool}`. */
  async change(fields) {
    await ask(this.location, {
      method: "PATCH", headers: this.authorized({ "Content-Type": "application/json" }), body: JSON.stringify(fields),
    });
  }

  /** Whom to see in which slot, and how large: `[{mid, uid, height}]`. */
  async requestSlots(slots) {
    await ask(`${this.location}/slots`, {
      method: "PUT", headers: this.authorized({ "Content-Type": "application/json" }), body: JSON.stringify({ slots }),
    });
  }

  /** New ICE credentials on the same connection (RFC 9725, section 4.3.3): after a change of the network. */
  async restart() {
    const connection = this.connection;
    if (this.isClosed || !this.location || connection.signalingState !== "stable") return;
    const answer = connection.remoteDescription.sdp;
    const offer = await connection.createOffer({ iceRestart: true });
    await connection.setLocalDescription(offer);
    const lines = offer.sdp.split("\r\n");
    const first = (start) => lines.find((line) => line.startsWith(start));
    const fragment = [
      first("a=group:BUNDLE"), first("a=ice-ufrag:"), first("a=ice-pwd:"), first("a=fingerprint:"), first("m="),
      first("a=mid:"),
    ].join("\r\n") + "\r\n";
    try {
      const response = await ask(this.location, {
        method: "PATCH", body: fragment,
        headers: this.authorized({ "Content-Type": "application/trickle-ice-sdpfrag", "If-Match": "*" }),
      });
      const given = await response.text();
      const value = (name) => given.match(new RegExp(`^a=${name}:(.*?)\r?$`, "m"))[1];
      await connection.setRemoteDescription({
        type: "answer",
        sdp: answer.replace(/^a=ice-ufrag:.*$/gm, `a=ice-ufrag:${value("ice-ufrag")}`)
          .replace(/^a=ice-pwd:.*$/gm, `a=ice-pwd:${value("ice-pwd")}`),
      });
    } catch (error) {
      if (connection.signalingState === "have-local-offer") await connection.setLocalDescription({ type: "rollback" });
      throw error;
    }
  }

  /** Leaves: a hang-up, where joined. `keepalive`: also from a page that is going away. */
  async leave({ keepalive = false } = {}) {
    if (this.location) await ask(this.location, { method: "DELETE", headers: this.authorized(), keepalive });
  }

  /** Closes the connection here; what the relay knows of it is `leave`'s business. */
  close() {
    this.isClosed = true;
    clearTimeout(this.restartTimer);
    this.connection?.close();
  }

  /** Counters of the connection since its start, from getStats; null without one. */
  async totals() {
    if (!this.connection || this.connection.signalingState === "closed") return null;
    const found = {
      framesDecoded: 0, framesPerSecond: 0, frameWidth: 0, frameHeight: 0, freezeCount: 0, framesSent: 0,
      totalFreezesDuration: null,
      audioPacketsReceived: 0, videoPacketsReceived: 0, audioPacketsLost: 0, videoPacketsLost: 0,
      bytesReceived: 0, bytesSent: 0, totalAudioEnergy: 0, samplesReceived: 0, concealedSamples: 0, roundTripMs: null,
      remoteFractionLost: null, srtpCipher: null, sentWidth: 0, sentHeight: 0, sentFramesPerSecond: 0,
      keyFramesDecoded: 0, pliSent: 0, nackSent: 0,
    };
    for (const item of (await this.connection.getStats()).values()) addStatistics(found, item);
    return found;
  }
}

function addStatistics(found, item) {
  switch (item.type) {
    case "inbound-rtp": addInbound(found, item); break;
    case "outbound-rtp":
      found.bytesSent += item.bytesSent ?? 0;
      if (item.kind === "video") {
        found.framesSent += item.framesSent ?? item.framesEncoded ?? 0;
        found.sentWidth = item.frameWidth ?? found.sentWidth;
        found.sentHeight = item.frameHeight ?? found.sentHeight;
        found.sentFramesPerSecond = item.framesPerSecond ?? found.sentFramesPerSecond;
      }
      break;
    case "remote-inbound-rtp":
      if (item.fractionLost !== undefined) {
        found.remoteFractionLost = Math.max(found.remoteFractionLost ?? 0, item.fractionLost);
      }
      if (item.roundTripTime !== undefined) found.roundTripMs ??= item.roundTripTime * 1000;
      break;
    case "candidate-pair":
      if (item.currentRoundTripTime !== undefined && (item.nominated || item.state === "succeeded")) {
        found.roundTripMs = item.currentRoundTripTime * 1000;
      }
      break;
    case "transport": found.srtpCipher = item.srtpCipher ?? found.srtpCipher; break;
  }
}

function addInbound(found, item) {
  found.bytesReceived += item.bytesReceived ?? 0;
  found.nackSent += item.nackCount ?? 0;
  if (item.kind === "audio") {
    found.audioPacketsReceived += item.packetsReceived ?? 0;
    found.audioPacketsLost += item.packetsLost ?? 0;
    found.totalAudioEnergy += item.totalAudioEnergy ?? 0;
    found.samplesReceived += item.totalSamplesReceived ?? 0;
    found.concealedSamples += item.concealedSamples ?? 0;
  } else {
    found.videoPacketsReceived += item.packetsReceived ?? 0;
    found.videoPacketsLost += item.packetsLost ?? 0;
    found.framesDecoded += item.framesDecoded ?? 0;
    found.keyFramesDecoded += item.keyFramesDecoded ?? 0;
    found.freezeCount += item.freezeCount ?? 0;
    found.totalFreezesDuration = item.totalFreezesDuration ?? found.totalFreezesDuration;
    found.pliSent += item.pliCount ?? 0;
    found.framesPerSecond = item.framesPerSecond ?? found.framesPerSecond;
    found.frameWidth = item.frameWidth ?? found.frameWidth;
    found.frameHeight = item.frameHeight ?? found.frameHeight;
  }
}
