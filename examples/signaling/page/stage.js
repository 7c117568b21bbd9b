// The stage: the call that this tab is in, from "Calling…" to the words of its end. Shows a call; changes nothing in it.

import { $, complain, initials, setText } from "/dom.js";
import { inWords } from "/words.js";

/** Before there is a call: the devices open, the server is asked. */
export function showCurtain(name, headline, detail) {
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

export function showStage(call) {
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
      whenPicture(() => {
        if ($("remote").srcObject === remote) $("screen").classList.add("has-picture");
      });
    }
  }
  const own = call.isOver ? null : call.stream;
  if ($("local").srcObject !== own) $("local").srcObject = own;
  $("local").hidden = call.isOver || call.tracks("video").length === 0;
}

function whenPicture(shown) {
  if ($("remote").requestVideoFrameCallback) $("remote").requestVideoFrameCallback(shown);
  else $("remote").addEventListener("resize", () => { if ($("remote").videoWidth > 0) shown(); }, { once: true });
}
