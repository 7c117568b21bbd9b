// The page: turns clicks into what `Signaling` and `Call` do, and their news into what is shown.
//
// Owns the tab's calls, which of them is on the stage, and the dialog that rings. Decides nothing about a call.

import { openDevices } from "/session.js";
import { Call } from "/call.js";
import { showLog, showPeople } from "/desk.js";
import { $, complain, initials, notify, setText } from "/dom.js";
import { Signaling } from "/signaling.js";
import * as sounds from "/sounds.js";
import { showCurtain, showStage } from "/stage.js";
import { clock, inWords } from "/words.js";

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

const isInCall = () => current !== null && !current.isOver;

const signaling = new Signaling({ receive, state: showLine });

// MARK: Messages of the signaling server

function receive(message) {
  switch (message.kind) {
    case "hello":
      // Behind a break of the line: what became of the calls meanwhile?
      for (const call of calls.values()) call.refresh();
      loadLog();
      break;
    case "presence": people = message.people; render(); break;
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
  if (isPlacing || isInCall()) return;
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
  const endOthers = isInCall();
  current = call;
  // The relay ends the other call in the same decision and says so; then it goes here, too.
  call.answer({ endOthers });
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
  const isBusy = isPlacing || isInCall();
  $("to-audio").disabled = $("to-video").disabled = isBusy;
  showPeople(people.filter(({ uid }) => uid !== signaling.uid), { isBusy, place: placeCall });
}

/** The oldest call that rings here. In a call it is shown beside it, else in front of everything. */
function showRing() {
  const call = [...calls.values()].find((one) => !one.isCaller && one.state === "ringing");
  const dialog = $("ring");
  const isBusy = isInCall() && current !== call;
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

async function loadLog() {
  const entries = await signaling.log().catch(() => null);
  if (entries) showLog(entries, signaling.uid);
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
const switched = (word) => word === "on" ? "muted" : "on";
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
