// The demo page for groups: one offer with a fixed number of slots, whoever comes and goes.
//
// Owns the page's state and the one session. Who is in which slot and who speaks is what the room's event stream says;
// the page decides only whom to pin and how large it shows a picture.

import { Session, ask, follow, openDevices } from "/session.js";

const $ = (id) => document.getElementById(id);
const parameters = new URLSearchParams(location.search);
/** The slots that the offer asks for; one of each kind is the sending pair's. */
const slots = { audio: Number(parameters.get("voices") ?? 3), video: Number(parameters.get("tiles") ?? 5) };

/** Everything about the current call; null when there is none. */
let call = null;

// MARK: A call, step by step

async function join() {
  if (call && !call.ended) return;
  const current = {
    started: performance.now(), name: $("name").value.trim(), people: new Map(), tiles: new Map(), pins: new Map(),
    speaker: null, abort: new AbortController(), session: null, stream: null, ended: false, closed: null, seen: [],
    offers: 0, sounds: [],
  };
  call = current;
  setPhase("preparing");
  complain("");
  say("Opening camera and microphone…");
  try {
    const { stream } = await openDevices();
    current.stream = stream;
    if (parameters.get("muted") === "1") for (const track of stream.getAudioTracks()) track.enabled = false;
    $("local").srcObject = stream;
    say("Connecting to the relay…");
    const given = await ask("/demo/session", {
      method: "POST", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ room: $("room").value.trim(), name: current.name, kind: "group" }),
    });
    Object.assign(current, await given.json());
    current.session = new Session({
      room: current.room, token: current.token, received: (mid, track) => addTrack(current, mid, track),
      progress: (step) => { if (step === "posted") current.offers += 1; },
    });
    follow(`/v1/rooms/${current.room}/events`, {
      headers: current.session.authorized(), signal: current.abort.signal, isOver: () => current.closed !== null,
      receive: (event) => { if (call === current) receive(current, event); },
    });
    await current.session.prepare({
      stream, query: "state=joined", slots: { audio: slots.audio - 1, video: slots.video - 1 },
    });
    current.own = current.session.participant;
    current.resize = new ResizeObserver(() => wishLater(current));
    current.resize.observe($("tiles"));
    setPhase("joined");
    show(current);
  } catch (error) {
    complain(error.message);
    finish(current, "The call could not be set up.");
  }
}

/** A slot of the answer: a tile for a picture, an element without a face for sound. */
function addTrack(current, mid, track) {
  const stream = new MediaStream([track]);
  if (track.kind === "audio") {
    const sound = new Audio();
    sound.srcObject = stream;
    sound.play().catch(() => { $("listen").hidden = false; });
    current.sounds.push(sound);
    return;
  }
  const tile = document.createElement("figure");
  tile.className = "tile";
  tile.dataset.mid = mid;
  tile.hidden = true;
  const video = document.createElement("video");
  Object.assign(video, { autoplay: true, playsInline: true, muted: true, srcObject: stream });
  const caption = document.createElement("figcaption");
  const who = document.createElement("span");
  who.className = "who";
  const pin = document.createElement("button");
  pin.type = "button";
  pin.textContent = "Pin";
  pin.addEventListener("click", () => togglePin(current, mid));
  caption.append(who, pin);
  tile.append(video, caption);
  $("tiles").append(tile);
  current.tiles.set(mid, { tile, video, who, pin, occupant: null });
  show(current);
}

async function leave() {
  const current = call;
  if (!current || current.ended) return;
  $("hangup").disabled = true;
  await current.session?.leave().catch((error) => complain(error.message));
  finish(current, "You left.");
}

function finish(current, headline) {
  if (current.ended) return;
  current.ended = true;
  current.abort.abort();
  current.resize?.disconnect();
  clearTimeout(current.wishTimer);
  current.session?.close();
  for (const track of current.stream?.getTracks() ?? []) track.stop();
  for (const sound of current.sounds) sound.srcObject = null;
  for (const { tile } of current.tiles.values()) tile.remove();
  $("local").srcObject = null;
  $("people").replaceChildren();
  setPhase("ended");
  say(headline);
}

// MARK: What the room says

function receive(current, event) {
  const person = event.participantId
    ? current.people.get(event.participantId) ?? { id: event.participantId, uid: event.uid, state: "none", media: {} } : null;
  switch (event.type) {
    case "participant.connecting": case "participant.prepared": case "participant.joined":
      person.state = event.type.slice("participant.".length);
      current.people.set(person.id, person);
      break;
    case "participant.changed": person.media = event.data; break;
    case "participant.left": case "participant.replaced":
      current.people.delete(event.participantId);
      if (current.speaker === event.participantId) current.speaker = null;
      for (const tile of current.tiles.values()) if (tile.occupant?.participantId === event.participantId) tile.occupant = null;
      if (event.participantId === current.own) finish(current, `You are out: ${event.reason ?? "replaced"}.`);
      break;
    case "slot.changed":
      // The stream may be ahead of the answer, which names the own participant.
      if (event.uid !== current.uid) break;
      for (const slot of event.data.slots) current.seen.push({ ...slot, atMs: Math.round(performance.now() - current.started) });
      break;
    case "speaker.changed": current.speaker = event.participantId; break;
    case "room.closed":
      current.closed = event;
      finish(current, "The call has ended.");
      break;
  }
  if (!current.ended) show(current);
}

/** The newest word about each slot. */
function place(current) {
  for (const [mid, tile] of current.tiles) {
    const word = current.seen.findLast((slot) => slot.mid === mid);
    tile.occupant = word?.participantId && current.people.has(word.participantId) ? word : null;
  }
}

// MARK: Wishes

function togglePin(current, mid) {
  const occupant = current.tiles.get(mid).occupant;
  if (current.pins.has(mid)) current.pins.delete(mid);
  else if (occupant) current.pins.set(mid, occupant.uid);
  wish(current);
  show(current);
}

function wishLater(current) {
  clearTimeout(current.wishTimer);
  current.wishTimer = setTimeout(() => wish(current), 500);
}

/** Who is pinned where, and how high each tile's picture is on this screen. */
function wish(current) {
  if (current.ended || !current.own) return;
  const wishes = [...current.tiles].map(([mid, { video }]) => ({
    mid, uid: current.pins.get(mid) ?? null,
    height: Math.min(4320, Math.round(video.clientHeight * devicePixelRatio)),
  }));
  current.session.requestSlots(wishes).catch((error) => complain(error.message));
}

// MARK: The page

function show(current) {
  place(current);
  for (const [mid, { tile, who, pin, occupant }] of current.tiles) {
    tile.hidden = !occupant;
    tile.dataset.uid = occupant?.uid ?? "";
    tile.dataset.speaking = String(occupant !== null && occupant.participantId === current.speaker);
    tile.dataset.camera = current.people.get(occupant?.participantId)?.media.video ?? "on";
    who.textContent = occupant?.uid ?? "";
    pin.setAttribute("aria-pressed", String(current.pins.has(mid)));
    pin.textContent = current.pins.has(mid) ? "Unpin" : "Pin";
  }
  $("own-tile").dataset.speaking = String(current.speaker !== null && current.speaker === current.own);
  $("own-name").textContent = `${current.uid ?? current.name} (you)`;
  $("people").replaceChildren(...[...current.people.values()].map((person) => {
    const line = document.createElement("li");
    line.textContent = person.media.audio === "muted" ? `${person.uid} (muted)` : person.uid;
    line.dataset.state = person.state;
    line.dataset.speaking = String(person.id === current.speaker);
    return line;
  }));
  const joined = [...current.people.values()].filter((person) => person.state === "joined").length;
  say(joined < 2 ? "You are the only one here." : `${joined} people are in.`);
}

function setPhase(phase) {
  document.body.dataset.phase = phase;
  const isBusy = phase === "preparing" || phase === "joined";
  for (const id of ["room", "name", "join"]) $(id).disabled = isBusy;
  const sending = (kind) => phase === "joined" && call.stream.getTracks().some((track) => track.kind === kind);
  $("mic").disabled = !sending("audio");
  $("camera").disabled = !sending("video");
  $("hangup").disabled = phase !== "joined";
  if (!isBusy) $("listen").hidden = true;
}

function say(headline) {
  if ($("headline").textContent !== headline) $("headline").textContent = headline;
}

function complain(text) {
  $("problem").textContent = text;
  $("problem").hidden = text === "";
}

/** The others are told, and the relay sees to it. */
async function toggle(button, kind, off, on) {
  const track = call?.stream?.getTracks().find((candidate) => candidate.kind === kind);
  if (!track) return;
  track.enabled = !track.enabled;
  button.setAttribute("aria-pressed", String(!track.enabled));
  button.textContent = track.enabled ? off : on;
  await call.session.change({ [kind]: track.enabled ? "on" : "muted" }).catch((error) => complain(error.message));
}

$("setup").addEventListener("submit", (event) => { event.preventDefault(); join(); });
$("hangup").addEventListener("click", leave);
$("mic").addEventListener("click", () => toggle($("mic"), "audio", "Mute microphone", "Unmute microphone"));
$("camera").addEventListener("click", () => toggle($("camera"), "video", "Turn camera off", "Turn camera on"));
$("listen").addEventListener("click", () => {
  for (const sound of call?.sounds ?? []) sound.play();
  $("listen").hidden = true;
});
addEventListener("pagehide", () => {
  if (call && !call.ended) call.session?.leave({ keepalive: true });
});

$("room").value = parameters.get("room") ?? "team";
$("name").value = parameters.get("name") ?? `guest-${crypto.getRandomValues(new Uint16Array(1))[0] % 1000}`;
setPhase("idle");

// MARK: Automatic mode, for tests: ?auto=1&room=…&name=…[&muted=1]; the test looks at `groupCall`.

globalThis.groupCall = {
  /** What is shown now, with the middle of each picture as red, green, blue. */
  look() {
    const canvas = new OffscreenCanvas(1, 1);
    const context = canvas.getContext("2d", { willReadFrequently: true });
    const tiles = [...(call?.tiles.values() ?? [])].filter(({ tile }) => !tile.hidden).map(({ tile, video }) => {
      let colour = null;
      if (video.videoWidth > 0) {
        context.drawImage(video, video.videoWidth / 4, video.videoHeight / 4, 1, 1, 0, 0, 1, 1);
        colour = [...context.getImageData(0, 0, 1, 1).data.slice(0, 3)];
      }
      return { mid: tile.dataset.mid, uid: tile.dataset.uid, isSpeaking: tile.dataset.speaking === "true", colour };
    });
    return {
      phase: document.body.dataset.phase, headline: $("headline").textContent, problem: $("problem").textContent,
      tiles, people: [...(call?.people.values() ?? [])].map((person) => person.uid), offers: call?.offers ?? 0,
      speaker: call?.people.get(call.speaker)?.uid ?? null,
    };
  },
  totals: () => call?.session?.totals() ?? null,
  leave,
};
if (parameters.get("auto") === "1") join();
