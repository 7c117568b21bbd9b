// The page: shows who is here, what rings, the call, the log; turns clicks into what `Signaling` and `Call` do.
//
// Owns the document and which call is on the stage. Decides nothing about a call.

import { openDevices } from "/session.js";
import { Call } from "/call.js";
import { Signaling } from "/signaling.js";
import * as sounds from "/sounds.js";
import { clock, inWords, logEntry } from "/words.js";

const $ = (id) => document.getElementById(id);
const parameters = new URLSearchParams(location.search);

/** Calls of this tab that are not over, by room. */
const calls = new Map();
/** The call on the stage; it stays there when it is over, until it is closed or another comes. */
let current = null;
/** A call is about to be made: the devices open, the server is asked. */
let isPlacing = false;
/** Events that overtook the server's answer to the call that they are of. */
let early = [];
/** A call that we answer as soon as it rings: the other called us in the moment that we called them. */
let crossing = null;
let people = [];

const signaling = new Signaling({ receive, state: showLine });

// MARK: Messages of the signaling server

function receive(message) {
  switch (message.kind) {
    case "hello":
      // Behind a break of the line: what became of the calls meanwhile?
      for (const call of calls.values()) call.refresh();
      loadLog();
      break;
    case "presence": people = message.people; showPeople(); break;
    case "ring": rung(message); break;
    case "event":
      if (calls.has(message.event.roomId)) calls.get(message.event.roomId).receive(message.event);
      else if (isPlacing) early.push(message.event);
      if (message.event.type === "call.ended") loadLog();
      break;
  }
}

function rung({ room, token, caller, name, media }) {
  if (calls.has(room)) return;
  const call = newCall({ room, token, other: caller, name: name ?? caller, media, isCaller: false });
  call.prepareAsCallee().catch((error) => call.refused(error));
  if (room === crossing) answer(call);
  else changed(call);
}

function newCall(fields) {
  const call = new Call({ ...fields, me: signaling.uid, device: signaling.device, changed });
  calls.set(call.room, call);
  return call;
}

// MARK: What the user does

async function placeCall(to, media) {
  if (isPlacing || (current && !current.isOver)) return;
  isPlacing = true;
  early = [];
  complain("");
  current = null;
  showCurtain(to, `Calling ${to}…`, "Allow the microphone if the browser asks.");
  let stream = null;
  try {
    const devices = await openDevices({ video: media === "video" });
    stream = devices.stream;
    if (!isPlacing) throw new Error("given up");
    const { room, token } = await signaling.place(to, media);
    const call = newCall({ room, token, other: to, name: to, media, isCaller: true });
    call.problems = devices.problems;
    for (const event of early.filter(({ roomId }) => roomId === room)) call.receive(event);
    current = call;
    // Given up before the server answered: this is the moment to say so.
    if (!isPlacing) return current.hangUp();
    isPlacing = false;
    await current.prepareAsCaller(stream);
  } catch (error) {
    if (current) return current.refused(error);
    for (const track of stream?.getTracks() ?? []) track.stop();
    const wasWanted = isPlacing;
    isPlacing = false;
    if (wasWanted) notPlaced(to, error);
  }
  if (current) changed(current);
}

function notPlaced(to, error) {
  const problem = error.problem;
  // Both call each other: the first call is the one to answer. It may ring here already, or in a moment.
  if (problem?.code === "glare") {
    crossing = problem.roomId;
    if (calls.has(crossing)) answer(calls.get(crossing));
    return;
  }
  $("stage").hidden = true;
  complain({
    "calling-self": "You cannot call yourself.", "session-already-active": "You are in a call already.",
  }[problem?.code] ?? `${to} could not be called: ${error.message}`);
  render();
}

function answer(call) {
  const isInCall = current !== null && !current.isOver;
  current = call;
  // The relay ends the other call in the same decision and says so; then it goes here, too.
  call.answer({ endOthers: isInCall });
  render();
  $("stage").focus();
}

function hangUp() {
  if (current) return current.hangUp();
  isPlacing = false;
  $("stage").hidden = true;
  render();
}

function closeStage() {
  current = null;
  render();
  $("desk").focus();
}

// MARK: What happened

function changed(call) {
  if (call.isOver && calls.delete(call.room)) {
    if (call === current) {
      sounds.hangUpTone();
    } else if (!call.isOwnDoing && call.end.by !== call.me) {
      // A ring that stopped by itself: said in words, since nothing else is left of it.
      notify(inWords(call)[0]);
    }
  }
  render();
}

// MARK: The page

function render() {
  const isOnline = signaling.session !== null;
  document.body.dataset.view = isOnline ? "in" : "out";
  $("log-in").hidden = isOnline;
  $("me").hidden = $("desk").hidden = !isOnline;
  if (current) showStage(current);
  else if (!isPlacing) $("stage").hidden = true;
  showRing();
  showPeople();
}

function showCurtain(name, headline, detail) {
  $("stage").hidden = false;
  $("screen").dataset.state = "calling";
  $("screen").classList.remove("has-picture");
  $("avatar").textContent = initials(name);
  setText("headline", headline);
  setText("detail", detail);
  $("bar").hidden = $("local").hidden = $("again").hidden = $("done").hidden = $("overlay").hidden = true;
  $("hang-up").hidden = false;
  $("hang-up").textContent = "Cancel";
  for (const id of ["mute", "camera", "hold", "add-video"]) $(id).hidden = true;
}

function showStage(call) {
  const words = {
    calling: () => [`Calling ${call.name}…`, "Looking for their devices."],
    ringing: () => [`Ringing…`, `${call.name}'s device rings.`],
    connecting: () => ["Connecting…", `${call.isCaller ? call.name : "You"} answered.`],
    connected: () => [call.name, "Connected"],
    over: () => inWords(call),
  }[call.state]();
  $("stage").hidden = false;
  $("screen").dataset.state = call.state;
  $("avatar").textContent = initials(call.name);
  $("avatar").classList.toggle("rings", call.state === "calling" || call.state === "ringing");
  setText("headline", words[0]);
  setText("detail", words[1]);
  setText("with", call.name + (call.theirs.audio === "muted" ? " · muted" : ""));
  $("bar").hidden = call.state !== "connected";
  showMedia(call);
  $("hang-up").hidden = call.isOver;
  $("hang-up").textContent = call.isCaller && !call.isAnswered ? "Cancel" : "Hang up";
  $("again").hidden = $("done").hidden = !call.isOver;
  const overlay = call.isOver ? "" : overlayWords(call);
  setText("overlay", overlay);
  $("overlay").hidden = overlay === "";
  showControls(call);
  if (call.problems.length > 0 && !call.isOver) complain(problemWords(call));
  if (call.isOver && document.activeElement === document.body) $("again").focus();
}

function overlayWords(call) {
  if (call.path !== "good") return "Your connection is interrupted…";
  if (call.otherPath !== "good") return `The connection of ${call.name} is interrupted…`;
  if (call.own.held) return "You hold the call.";
  if (call.theirs.held) return `${call.name} holds the call.`;
  if (call.videoWish === "own") return `Waiting for ${call.name} to turn video on…`;
  if (call.isDeclinedVideo) return `${call.name} stays with audio.`;
  return call.media === "video" && call.theirs.video === "muted" ? `${call.name}'s camera is off.` : "";
}

function showControls(call) {
  const isVideo = call.media === "video";
  const has = (kind) => call.tracks(kind).length > 0;
  $("mute").hidden = $("camera").hidden = call.isOver;
  $("mute").disabled = !has("audio");
  $("camera").hidden ||= !isVideo;
  $("camera").disabled = !has("video");
  $("hold").hidden = $("add-video").hidden = call.state !== "connected";
  $("add-video").hidden ||= isVideo;
  $("add-video").disabled = call.videoWish !== null;
  showToggle("mute", call.own.audio === "muted", "Mute", "Unmute");
  showToggle("camera", call.own.video === "muted", "Camera off", "Camera on");
  showToggle("hold", call.own.held, "Hold", "Resume");
  $("wish").hidden = call.videoWish !== "theirs";
  setText("wish-words", call.videoWish === "theirs" ? `${call.name} would like to see you.` : "");
}

function showToggle(id, isPressed, off, on) {
  $(id).setAttribute("aria-pressed", String(isPressed));
  setText(id, isPressed ? on : off);
}

const switched = (word) => word === "on" ? "muted" : "on";

function problemWords(call) {
  const [problem] = call.problems;
  if (problem.startsWith("camera")) return `There is no camera: ${call.name} will only hear you.`;
  if (problem.startsWith("microphone")) return `There is no microphone: ${call.name} will not hear you.`;
  return problem;
}

function showMedia(call) {
  const remote = call.isAnswered ? call.session.remote : null;
  if ($("remote").srcObject !== remote) {
    $("remote").srcObject = remote;
    $("screen").classList.remove("has-picture");
    $("listen").hidden = true;
    if (remote) {
      $("remote").play().catch((error) => { $("listen").hidden = error.name !== "NotAllowedError"; });
      $("remote").requestVideoFrameCallback?.(() => {
        if (current === call && !call.isOver) $("screen").classList.add("has-picture");
      });
    }
  }
  const own = call.isOver ? null : call.stream;
  if ($("local").srcObject !== own) $("local").srcObject = own;
  $("local").hidden = call.isOver || call.tracks("video").length === 0;
}

/** The oldest call that rings here. In a call it is shown beside it, else in front of everything. */
function showRing() {
  const call = [...calls.values()].find((one) => !one.isCaller && one.state === "ringing");
  const dialog = $("ring");
  const isBusy = current !== null && !current.isOver && current !== call;
  const rings = [...calls.values()].some((one) => one.isCaller && one.state === "ringing");
  sounds.play(call && !call.isQuiet ? (isBusy ? "waiting" : "ring") : rings ? "ringback" : null);
  document.title = call ? `${call.name} calls · MediaRelay` : "MediaRelay: call somebody";
  if (!call) {
    dialog.close();
    delete dialog.dataset.room;
    return;
  }
  setText("ring-name", call.name);
  setText("ring-kind", `${call.media === "video" ? "Video" : "Audio"} call${isBusy ? " waiting" : ""}`);
  $("ring-avatar").textContent = initials(call.name);
  setText("answer", isBusy ? "End & Accept" : "Answer");
  $("silence").setAttribute("aria-pressed", String(call.isQuiet));
  const form = isBusy ? "beside" : "modal";
  if (dialog.open && dialog.dataset.form === form && dialog.dataset.room === call.room) return;
  dialog.close();
  Object.assign(dialog.dataset, { room: call.room, form });
  if (isBusy) dialog.show();
  else dialog.showModal();
  $("answer").focus();
  navigator.vibrate?.([400, 200, 400]);
}

const rungCall = () => calls.get($("ring").dataset.room);

function showPeople() {
  const others = people.filter(({ uid }) => uid !== signaling.uid);
  const isBusy = isPlacing || (current !== null && !current.isOver);
  $("nobody").hidden = others.length > 0;
  const focused = document.activeElement?.id;
  $("people").replaceChildren(...others.map(({ uid, online }) => element("li", { className: "person" }, [
    element("span", { className: "dot", dataset: { state: online ? "online" : "offline" } }),
    element("span", { className: "who" }, [
      element("b", { textContent: uid }), element("span", { textContent: online ? "online" : "offline" }),
    ]),
    ...["audio", "video"].map((media) => element("button", {
      type: "button", id: `call-${uid}-${media}`, textContent: media === "audio" ? "Audio" : "Video", disabled: isBusy,
      ariaLabel: `${media === "audio" ? "Audio" : "Video"} call to ${uid}`, onclick: () => placeCall(uid, media),
    })),
  ])));
  $("to-audio").disabled = $("to-video").disabled = isBusy;
  if (focused?.startsWith("call-")) $(focused)?.focus();
}

async function loadLog() {
  const entries = await signaling.log().catch(() => null);
  if (!entries) return;
  $("no-calls").hidden = entries.length > 0;
  $("log").replaceChildren(...entries.map((entry) => {
    const { direction, other, isMissed, words, duration } = logEntry(entry, signaling.uid);
    const time = new Date(entry.atMs).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    return element("li", { className: isMissed ? "entry missed" : "entry" }, [
      element("span", { className: "arrow", textContent: direction === "out" ? "↗" : "↙", ariaHidden: "true" }),
      element("span", { className: "who" }, [
        element("b", { textContent: other }),
        element("span", { textContent: `${words} · ${entry.media}${duration && ` · ${duration}`}` }),
      ]),
      element("time", { dateTime: new Date(entry.atMs).toISOString(), textContent: time }),
    ]);
  }));
}

function element(name, { dataset = {}, ...properties }, children = []) {
  const made = Object.assign(document.createElement(name), properties);
  Object.assign(made.dataset, dataset);
  made.append(...children);
  return made;
}

const initials = (name) => (name.match(/[A-Za-z0-9]/) ?? ["?"])[0].toUpperCase();

/** Only when it is another text: what is announced is announced once. */
function setText(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

function complain(text) {
  setText("problem", text);
  $("problem").hidden = text === "";
}

let noticeTimer = null;
function notify(text) {
  setText("notice", text);
  $("notice").hidden = false;
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => { $("notice").hidden = true; $("notice").textContent = ""; }, 8000);
}

function showLine(isUp) {
  $("line").dataset.state = isUp ? "online" : "offline";
  $("line-words").textContent = isUp ? "online" : "reconnecting…";
}

async function logIn(name) {
  sounds.unlock();
  complain("");
  try {
    await signaling.logIn(name);
  } catch (error) {
    return complain(error.message);
  }
  sessionStorage.setItem("name", name);
  $("own-name").textContent = signaling.uid;
  render();
  $("desk").focus();
}

async function logOut() {
  await signaling.logOut();
  for (const call of calls.values()) call.close();
  calls.clear();
  current = null;
  render();
  $("name").focus();
}

$("log-in").addEventListener("submit", (event) => { event.preventDefault(); logIn($("name").value.trim()); });
$("log-out").addEventListener("click", logOut);
$("by-name").addEventListener("submit", (event) => {
  event.preventDefault();
  placeCall($("to").value.trim(), event.submitter?.value ?? "audio");
});
$("hang-up").addEventListener("click", hangUp);
$("again").addEventListener("click", () => placeCall(current.other, current.media));
$("done").addEventListener("click", closeStage);
$("mute").addEventListener("click", () => current.change({ audio: switched(current.own.audio) }));
$("camera").addEventListener("click", () => current.change({ video: switched(current.own.video) }));
$("hold").addEventListener("click", () => current.change({ held: !current.own.held }));
$("add-video").addEventListener("click", () => current.video("request"));
$("accept-video").addEventListener("click", () => current.video("accept"));
$("decline-video").addEventListener("click", () => current.video("decline"));
$("listen").addEventListener("click", () => { $("remote").play(); $("listen").hidden = true; });
$("answer").addEventListener("click", () => answer(rungCall()));
$("decline").addEventListener("click", () => rungCall().decline("rejected"));
$("busy").addEventListener("click", () => rungCall().decline("busy"));
$("silence").addEventListener("click", () => { rungCall().isQuiet = !rungCall().isQuiet; showRing(); });
// Escape must not hide what rings: it silences.
$("ring").addEventListener("cancel", (event) => {
  event.preventDefault();
  if (rungCall()) rungCall().isQuiet = true;
  showRing();
});
addEventListener("pagehide", () => calls.forEach((call) => call.abandon()));
setInterval(() => {
  if (current?.state === "connected") setText("timer", clock(performance.now() - current.startedAt));
}, 250);

// For tests, and for the curious at the console.
globalThis.pageCall = () => current;

$("name").value = parameters.get("name") ?? sessionStorage.getItem("name") ?? "";
render();
$("name").focus();
