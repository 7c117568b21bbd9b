// The demo page: one call with one other, through the relay's public API and nothing else.
//
// Owns the page's state and the one RTCPeerConnection. Decides nothing about the room: what it shows of the participants is
// what the room's event stream says. Nothing is sent before the own "Join": until then the tracks of the senders are null.

const $ = (id) => document.getElementById(id);
const parameters = new URLSearchParams(location.search);
const device = "browser";

/** Everything about the current call; null when there is none. */
let call = null;

// MARK: The API

/** A refusal of the relay (an RFC 9457 problem document) or of the network, in words. */
class Refusal extends Error {
  constructor(message, problem) {
    super(message);
    this.problem = problem;
  }
}

async function ask(path, options = {}) {
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

const authorized = (headers = {}) => ({ Authorization: `Bearer ${call.token}`, ...headers });

/**
 * Follows the room's events until it is closed. The stream is read with fetch because the token belongs in a header; a
 * break resumes behind the last event seen.
 */
async function follow(current) {
  let last = null;
  while (call === current && !current.closed) {
    try {
      const headers = authorized({ Accept: "text/event-stream" });
      if (last !== null) headers["Last-Event-ID"] = last;
      const response = await fetch(`/v1/rooms/${current.room}/events`, { headers, signal: current.abort.signal });
      if (!response.ok) {
        if (response.status < 500 && response.status !== 429) return;
        throw new Error(`status ${response.status}`);
      }
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
          if (message.data && call === current) receive(current, JSON.parse(message.data));
        }
      }
    } catch {
      if (current.abort.signal.aborted) return;
    }
    await sleep(1000);
  }
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

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// MARK: A call, step by step

async function prepare(room, name) {
  const current = {
    name, started: performance.now(), states: [], people: new Map(), own: null, closed: null, ended: false,
    abort: new AbortController(), connection: null, stream: null, token: "", room: "", location: "",
    joining: false, timings: {}, beforeJoin: null, figures: null, problems: [], samples: [],
  };
  call = current;
  setPhase("preparing");
  complain("");
  say("Opening camera and microphone…", "Allow them if the browser asks.");
  try {
    current.stream = await openDevices(current);
    if (call !== current) return;
    $("local").srcObject = current.stream;
    say("Connecting to the relay…", "");
    const session = await ask("/demo/session", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ room, name }),
    });
    Object.assign(current, await session.json());
    $("own-name").textContent = `${current.uid} (you)`;
    follow(current);
    await connect(current);
  } catch (error) {
    if (call === current) fail(error);
  }
}

/** Camera and microphone; without a camera the microphone alone; without either nothing is sent. */
async function openDevices(current) {
  const video = { width: { ideal: 640 }, height: { ideal: 480 }, frameRate: { ideal: 30 } };
  const audio = { echoCancellation: true, noiseSuppression: true };
  if (!navigator.mediaDevices) {
    throw new Refusal("The browser gives camera and microphone only to pages from localhost or over HTTPS.");
  }
  try {
    return await navigator.mediaDevices.getUserMedia({ audio, video });
  } catch (error) {
    current.problems.push(`camera: ${error.name}`);
  }
  try {
    const stream = await navigator.mediaDevices.getUserMedia({ audio });
    complain("There is no camera: the other will only hear you.");
    return stream;
  } catch (error) {
    current.problems.push(`microphone: ${error.name}`);
    complain("There is no camera and no microphone: you will only see and hear the other.");
    return new MediaStream();
  }
}

async function connect(current) {
  // One offer, one answer, no servers, no candidates: the relay learns the address from the first check.
  const connection = new RTCPeerConnection({ iceServers: [], bundlePolicy: "max-bundle" });
  current.connection = connection;
  const streams = [current.stream];
  current.senders = {
    audio: connection.addTransceiver("audio", { direction: "sendrecv", streams }).sender,
    video: connection.addTransceiver("video", { direction: "sendrecv", streams }).sender,
  };
  const remote = new MediaStream();
  $("remote").srcObject = remote;
  connection.ontrack = (event) => remote.addTrack(event.track);
  connection.onconnectionstatechange = () => {
    if (connection.connectionState === "connected") current.timings.connected ??= since(current);
    if (connection.connectionState === "failed" && call === current && !current.closed) {
      complain("The media path to the relay is gone.");
    }
  };
  await connection.setLocalDescription();
  current.timings.posted = since(current);
  const answer = await ask(`/v1/rooms/${current.room}/sessions?state=prepared`, {
    method: "POST", headers: authorized({ "Content-Type": "application/sdp" }), body: connection.localDescription.sdp,
  });
  if (call !== current) return;
  current.location = answer.headers.get("Location");
  current.own = current.location.split("/").pop();
  current.timings.answered = since(current);
  await connection.setRemoteDescription({ type: "answer", sdp: await answer.text() });
  $("hangup").disabled = false;
  showPeople();
  advance();
  current.ticker = setInterval(() => measure(current), 1000);
}

async function join() {
  const current = call;
  if (!current || current.joining || ownState() !== "prepared") return;
  current.joining = true;
  current.timings.join = since(current);
  $("join").disabled = true;
  say("Joining…", "");
  try {
    current.beforeJoin = await totals(current);
    await Promise.all(
      current.stream.getTracks().map((track) => current.senders[track.kind].replaceTrack(track)));
    await ask(`${current.location}/join`, { method: "POST", headers: authorized() });
    $("remote").play().catch(() => { $("listen").hidden = false; });
    watchFirstFrame(current);
  } catch (error) {
    current.joining = false;
    fail(error);
  }
}

function watchFirstFrame(current) {
  const picture = () => {
    current.timings.firstFrame ??= since(current);
    document.body.classList.add("has-picture");
  };
  if ($("remote").requestVideoFrameCallback) $("remote").requestVideoFrameCallback(picture);
  else $("remote").addEventListener("loadeddata", picture, { once: true });
}

async function hangUp() {
  const current = call;
  if (!current || current.ended) return;
  $("hangup").disabled = true;
  if (!current.location) return finish(current, "You gave up before the call was set up.", "");
  current.figures = await totals(current).catch(() => current.figures);
  try {
    await ask(current.location, { method: "DELETE", headers: authorized() });
  } catch (error) {
    complain(error.message);
  }
  // The room's end comes as an event; without one (the room goes on for others) the own leave is the end.
  await sleep(1500);
  if (call === current && !current.ended) finish(current, "You left.", "");
}

function fail(error) {
  call?.problems.push(error.message);
  complain(error.message);
  if (call && !call.location) finish(call, "The call could not be set up.", error.message);
}

// MARK: What the room says

function receive(current, event) {
  noteEvent(event);
  const person = event.participantId ? entry(current, event) : null;
  switch (event.type) {
    case "participant.connecting": setState(current, person, "connecting"); break;
    case "participant.prepared": setState(current, person, "prepared"); break;
    case "participant.joined": setState(current, person, "joined"); break;
    case "participant.interrupted":
      person.before = person.state;
      setState(current, person, "interrupted");
      break;
    case "participant.recovered": setState(current, person, person.before ?? "joined"); break;
    case "participant.replaced":
      current.people.delete(event.participantId);
      if (event.participantId === current.own) {
        finish(current, "Somebody with the same name took this call over.", "Another tab or machine, perhaps your own.");
      }
      break;
    case "participant.left":
      person.reason = event.reason;
      person.detail = event.data?.detail;
      setState(current, person, "left", event.reason);
      if (event.participantId === current.own) setTimeout(() => endByLeave(current), 500);
      break;
    case "room.closed":
      current.closed = { reason: event.reason, outcome: event.data?.outcome, durationMs: event.data?.durationMs };
      finishByRoom(current);
      break;
  }
  showPeople();
  advance();
}

function entry(current, event) {
  let person = current.people.get(event.participantId);
  if (!person) {
    person = { id: event.participantId, uid: event.uid, state: "none" };
    current.people.set(event.participantId, person);
  }
  return person;
}

function setState(current, person, state, reason) {
  person.state = state;
  current.states.push({ atMs: since(current), uid: person.uid, state, ...(reason && { reason }) });
}

const ownPerson = () => call?.people.get(call.own);
const ownState = () => ownPerson()?.state ?? (call?.connection ? "connecting" : "none");

/** The other of the call: the one who is here, else the last who was. */
function otherPerson(current = call) {
  const others = [...(current?.people.values() ?? [])].filter((person) => person.id !== current.own);
  return others.findLast((person) => person.state !== "left") ?? others.at(-1);
}

/** What the page shows and allows in the state that the call is in now. */
function advance() {
  if (!call || call.ended) return;
  const own = ownState();
  const other = otherPerson();
  const name = other?.uid ?? "the other";
  if (own === "prepared" && !call.joining) {
    setPhase("prepared");
    if ($("join").disabled) {
      $("join").disabled = false;
      if (document.activeElement === document.body || document.activeElement === null) $("join").focus();
    }
    const theirs = { joined: `${name} is in and waits for you.`, prepared: `${name} is ready too.` };
    say("Ready. Join when you like.", theirs[other?.state] ?? "Nobody else is here yet.");
  } else if (own === "joined") {
    setPhase("joined");
    const waiting = !other || other.state !== "joined";
    say(waiting ? "You are in." : "Waiting for the picture…", waiting ? `Waiting for ${name} to join.` : "");
  }
}

// MARK: Ends, in words

const ownEnd = {
  hangup: "You hung up.",
  kicked: "The server took you out of the call.",
  lost: "Your connection was lost.",
  expired: "Nobody joined in time.",
  failed: "The media path to the relay did not come up.",
  idle: "The call was silent for too long.",
  drained: "The relay is being shut down.",
  "room-ended": "The server ended the call.",
  "node-lost": "The relay's media process failed.",
  "peer-left": "The other left.",
};
const otherEnd = {
  hangup: (name) => `${name} hung up.`,
  kicked: (name) => `The server took ${name} out of the call.`,
  lost: (name) => `The connection of ${name} was lost.`,
  failed: (name) => `The media path of ${name} did not come up.`,
};

function endInWords(current) {
  const own = current.people.get(current.own);
  const other = otherPerson(current);
  if (own?.reason === "peer-left" || !own?.reason) {
    const words = otherEnd[other?.reason];
    if (words) return words(other.uid);
  }
  return ownEnd[own?.reason ?? current.closed?.reason] ?? "The call has ended.";
}

function finishByRoom(current) {
  const { outcome, reason, durationMs } = current.closed;
  const facts = [`outcome: ${outcome}`, `reason: ${reason}`];
  if (durationMs) facts.push(`talked for ${clock(durationMs)}`);
  finish(current, endInWords(current), facts.join(" · "));
}

/** The own participant is out while the room goes on. */
function endByLeave(current) {
  if (call !== current || current.ended) return;
  finish(current, endInWords(current), ownPerson()?.detail ?? "");
}

async function finish(current, headline, facts) {
  if (current.ended) return;
  current.ended = true;
  current.end = {
    atMs: since(current), text: headline, reason: current.people.get(current.own)?.reason ?? null,
    outcome: current.closed?.outcome ?? null, roomReason: current.closed?.reason ?? null,
    durationMs: current.closed?.durationMs ?? null,
  };
  clearInterval(current.ticker);
  current.figures = await totals(current).catch(() => current.figures) ?? current.figures;
  current.abort.abort();
  current.connection?.close();
  for (const track of current.stream?.getTracks() ?? []) track.stop();
  $("local").srcObject = null;
  $("remote").srcObject = null;
  document.body.classList.remove("has-picture");
  setPhase("ended");
  say(headline, facts);
  $("again").focus();
  current.whenEnded?.();
}

// MARK: Figures

const since = (current) => Math.round(performance.now() - current.started);

/** Counters of the connection since its start, from getStats. */
async function totals(current) {
  if (!current.connection || current.connection.signalingState === "closed") return null;
  const found = {
    framesDecoded: 0, framesPerSecond: 0, frameWidth: 0, frameHeight: 0, freezeCount: 0, framesSent: 0,
    totalFreezesDuration: null,
    audioPacketsReceived: 0, videoPacketsReceived: 0, audioPacketsLost: 0, videoPacketsLost: 0,
    bytesReceived: 0, bytesSent: 0, totalAudioEnergy: 0, samplesReceived: 0, concealedSamples: 0, roundTripMs: null,
    remoteFractionLost: null, srtpCipher: null, sentWidth: 0, sentHeight: 0, sentFramesPerSecond: 0, keyFramesDecoded: 0,
    pliSent: 0, nackSent: 0,
  };
  const report = await current.connection.getStats();
  for (const item of report.values()) {
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
  return found;
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

async function measure(current) {
  const now = await totals(current).catch(() => null);
  if (!now || call !== current || current.ended) return;
  const before = current.figures;
  const seconds = before ? (performance.now() - current.measuredAt) / 1000 : 1;
  current.figures = now;
  current.measuredAt = performance.now();
  // Browsers tell whole milliseconds.
  $("rtt").textContent = now.roundTripMs === null ? "–" : now.roundTripMs < 1 ? "< 1 ms" : `${Math.round(now.roundTripMs)} ms`;
  $("cipher").textContent = cipherNames[now.srtpCipher?.replace(/^SRTP_/, "")] ?? now.srtpCipher ?? "–";
  $("picture-in").textContent = picture(now.frameWidth, now.frameHeight, now.framesPerSecond);
  $("picture-out").textContent = picture(now.sentWidth, now.sentHeight, now.sentFramesPerSecond);
  $("loss-out").textContent = now.remoteFractionLost === null ? "–" : percent(now.remoteFractionLost);
  if (!before) return;
  const lost = difference(now, before, "PacketsLost");
  const received = difference(now, before, "PacketsReceived");
  $("loss-in").textContent = received + lost > 0 ? percent(Math.max(0, lost) / (received + lost)) : "–";
  $("rate-in").textContent = rate((now.bytesReceived - before.bytesReceived) / seconds);
  $("rate-out").textContent = rate((now.bytesSent - before.bytesSent) / seconds);
}

const cipherNames = {
  AEAD_AES_128_GCM: "AES-128-GCM", AEAD_AES_256_GCM: "AES-256-GCM", AES128_CM_HMAC_SHA1_80: "AES-128-CM, SHA-1",
  AES_CM_128_HMAC_SHA1_80: "AES-128-CM, SHA-1",
};
const difference = (now, before, what) =>
  now[`audio${what}`] + now[`video${what}`] - before[`audio${what}`] - before[`video${what}`];
const percent = (fraction) => `${(fraction * 100).toFixed(1)} %`;
const rate = (bytesPerSecond) => {
  const kilobits = Math.max(0, bytesPerSecond) * 8 / 1000;
  return kilobits >= 1000 ? `${(kilobits / 1000).toFixed(2)} Mbit/s` : `${Math.round(kilobits)} kbit/s`;
};
const picture = (width, height, frames) => width ? `${width} × ${height}, ${Math.round(frames ?? 0)} fps` : "–";
const clock = (ms) => `${Math.floor(ms / 60000)}:${String(Math.floor(ms / 1000) % 60).padStart(2, "0")}`;

// MARK: The page

function setPhase(phase) {
  document.body.dataset.phase = phase;
  const busy = phase !== "idle" && phase !== "ended";
  for (const id of ["room", "name", "prepare"]) $(id).disabled = busy;
  const sending = (kind) => busy && call?.stream?.getTracks().some((track) => track.kind === kind);
  $("mic").disabled = !sending("audio");
  $("camera").disabled = !sending("video");
  $("again").hidden = phase !== "ended";
  $("join").hidden = phase === "ended" || phase === "joined";
  $("private").hidden = phase !== "preparing" && phase !== "prepared";
  if (!busy) {
    $("join").disabled = true;
    $("hangup").disabled = true;
    $("listen").hidden = true;
  }
}

function say(headline, subline) {
  if ($("headline").textContent !== headline) $("headline").textContent = headline;
  $("subline").textContent = subline;
}

function complain(text) {
  $("problem").textContent = text;
  $("problem").hidden = text === "";
}

function showPeople() {
  showState("own-state", ownPerson() ?? { state: ownState() });
  const other = otherPerson();
  $("other-name").textContent = other?.uid ?? "The other";
  showState("other-state", other ?? { state: "none" });
}

function showState(id, person) {
  $(id).dataset.state = person.state;
  const words = person.state === "none" ? "not here" : person.state;
  $(id).textContent = person.reason ? `${words}: ${person.reason}` : words;
}

function noteEvent(event) {
  const line = document.createElement("li");
  const parts = [
    ["time", event.time?.slice(11, 23) ?? ""], ["type", event.type], ["uid", event.uid ?? ""],
    ["reason", event.reason ?? ""],
  ];
  for (const [name, text] of parts) {
    if (!text) continue;
    const part = document.createElement("span");
    part.className = name;
    part.textContent = text;
    line.append(part);
  }
  $("events").append(line);
  while ($("events").childElementCount > 200) $("events").firstElementChild.remove();
}

function toggle(button, kind, off, on) {
  const track = call?.stream?.getTracks().find((candidate) => candidate.kind === kind);
  if (!track) return;
  track.enabled = !track.enabled;
  button.setAttribute("aria-pressed", String(!track.enabled));
  button.textContent = track.enabled ? off : on;
}

function resetControls() {
  $("mic").setAttribute("aria-pressed", "false");
  $("mic").textContent = "Mute microphone";
  $("camera").setAttribute("aria-pressed", "false");
  $("camera").textContent = "Turn camera off";
  $("events").replaceChildren();
  for (const id of ["rtt", "loss-in", "loss-out", "rate-in", "rate-out", "picture-in", "picture-out", "cipher"]) {
    $(id).textContent = "–";
  }
}

function begin() {
  if (call && !call.ended) return;
  if (!$("setup").reportValidity()) return;
  resetControls();
  const room = $("room").value.trim();
  history.replaceState(null, "", `?${new URLSearchParams({ ...Object.fromEntries(parameters), room })}`);
  sessionStorage.setItem("name", $("name").value.trim());
  return prepare(room, $("name").value.trim());
}

$("setup").addEventListener("submit", (event) => { event.preventDefault(); begin(); });
$("join").addEventListener("click", join);
$("hangup").addEventListener("click", hangUp);
$("again").addEventListener("click", begin);
$("mic").addEventListener("click", () => toggle($("mic"), "audio", "Mute microphone", "Unmute microphone"));
$("camera").addEventListener("click", () => toggle($("camera"), "video", "Turn camera off", "Turn camera on"));
$("listen").addEventListener("click", () => { $("remote").play(); $("listen").hidden = true; });
// A closed tab leaves at once instead of being lost after 30 s.
addEventListener("pagehide", () => {
  if (call && !call.ended && call.location) {
    fetch(call.location, { method: "DELETE", headers: authorized(), keepalive: true });
  }
});

$("room").value = parameters.get("room") ?? "try";
$("name").value = parameters.get("name") ?? sessionStorage.getItem("name")
  ?? `guest-${crypto.getRandomValues(new Uint16Array(1))[0] % 1000}`;
setPhase("idle");

// MARK: Automatic mode, for tests: ?auto=1&room=…&name=…&secs=10&leave=1&report=http://127.0.0.1:PORT/…

async function until(condition, seconds, what) {
  const deadline = performance.now() + seconds * 1000;
  while (!condition()) {
    if (call?.ended && what !== "the end") throw new Error(`the call ended while waiting for ${what}`);
    if (performance.now() > deadline) throw new Error(`waited ${seconds} s for ${what}`);
    await sleep(20);
  }
}

/** Talks for so many seconds; notes five times a second what has come until then, so that a report shows pauses. */
async function sample(current, seconds) {
  const end = performance.now() + seconds * 1000;
  while (performance.now() < end && !current.ended) {
    const now = await totals(current).catch(() => null);
    if (now) {
      const { framesDecoded, audioPacketsReceived, freezeCount, totalFreezesDuration, samplesReceived, concealedSamples } = now;
      current.samples.push({
        atMs: since(current), framesDecoded, audioPacketsReceived, freezeCount, totalFreezesDuration, samplesReceived,
        concealedSamples,
      });
    }
    await sleep(200);
  }
}

async function runAutomatically() {
  const seconds = Number(parameters.get("secs") ?? 10);
  let error = null;
  try {
    begin();
    await until(() => ownState() === "prepared", 30, "the own state prepared");
    await until(() => ["prepared", "joined"].includes(otherPerson()?.state), 60, "the other");
    await join();
    await until(() => ownState() === "joined" && otherPerson()?.state === "joined", 20, "both joined");
    await sample(call, seconds);
    if (parameters.get("leave") === "1") hangUp();
    await until(() => call.ended, seconds + 30, "the end");
  } catch (failure) {
    error = failure.message;
  }
  // The end's own figures and texts are set in the turn that follows.
  await sleep(200);
  const body = JSON.stringify({
    name: parameters.get("name"), error, room: call?.room, device, states: call?.states ?? [], end: call?.end ?? null,
    timings: call?.timings ?? {}, beforeJoin: call?.beforeJoin ?? null, figures: call?.figures ?? null,
    problems: call?.problems ?? [], samples: call?.samples ?? [],
    shown: { headline: $("headline").textContent, subline: $("subline").textContent },
  });
  const address = parameters.get("report");
  if (address) await fetch(address, { method: "POST", mode: "no-cors", headers: { "Content-Type": "text/plain" }, body });
}

if (parameters.get("auto") === "1") runAutomatically();
