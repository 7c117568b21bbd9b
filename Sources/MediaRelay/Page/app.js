// The demo page: one call with one other, through the relay's public API and nothing else.
//
// Owns the page's state and the one session. Decides nothing about the room: what it shows of the participants is
// what the room's event stream says. Nothing is sent before the own "Join": until then the tracks of the senders are null.

import { Refusal, Session, ask, follow, openDevices, sleep } from "/session.js";

const $ = (id) => document.getElementById(id);
const parameters = new URLSearchParams(location.search);
const device = "browser";

/** Everything about the current call; null when there is none. */
let call = null;

// MARK: A call, step by step

async function prepare(room, name) {
  const current = {
    name, started: performance.now(), states: [], people: new Map(), own: null, closed: null, ended: false,
    abort: new AbortController(), session: null, stream: null, token: "", room: "",
    joining: false, timings: {}, beforeJoin: null, figures: null, problems: [], samples: [],
  };
  call = current;
  setPhase("preparing");
  complain("");
  say("Opening camera and microphone…", "Allow them if the browser asks.");
  try {
    const { stream, problems } = await openDevices();
    current.stream = stream;
    current.problems.push(...problems);
    if (call !== current) return;
    const kinds = stream.getTracks().map((track) => track.kind);
    if (kinds.length === 0) complain("There is no camera and no microphone: you will only see and hear the other.");
    else if (!kinds.includes("video")) complain("There is no camera: the other will only hear you.");
    $("local").srcObject = stream;
    say("Connecting to the relay…", "");
    const answer = await ask("/demo/session", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ room, name }),
    });
    Object.assign(current, await answer.json());
    $("own-name").textContent = `${current.uid} (you)`;
    current.session = new Session({
      room: current.room, token: current.token, progress: (step) => noteProgress(current, step),
    });
    follow(`/v1/rooms/${current.room}/events`, {
      headers: current.session.authorized(), signal: current.abort.signal, isOver: () => current.closed !== null,
      receive: (event) => { if (call === current) receive(current, event); },
    });
    await connect(current);
  } catch (error) {
    if (call === current) fail(error);
  }
}

function noteProgress(current, step) {
  current.timings[step] ??= since(current);
  if (step === "failed" && call === current && !current.closed) complain("The media path to the relay is gone.");
}

async function connect(current) {
  $("remote").srcObject = current.session.remote;
  await current.session.prepare();
  if (call !== current) return;
  current.own = current.session.participant;
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
    current.beforeJoin = await current.session.totals();
    await current.session.send(current.stream);
    await current.session.join();
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
  if (!current.own) return finish(current, "You gave up before the call was set up.", "");
  current.figures = await current.session.totals().catch(() => current.figures);
  try {
    await current.session.leave();
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
  if (call && !call.own) finish(call, "The call could not be set up.", error.message);
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
const ownState = () => ownPerson()?.state ?? (call?.session?.connection ? "connecting" : "none");

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
  current.figures = await current.session?.totals().catch(() => current.figures) ?? current.figures;
  current.abort.abort();
  current.session?.close();
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

async function measure(current) {
  const now = await current.session.totals().catch(() => null);
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
  if (call && !call.ended) call.session?.leave({ keepalive: true });
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
    const now = await current.session.totals().catch(() => null);
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
