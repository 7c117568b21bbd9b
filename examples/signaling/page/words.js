// Outcomes in plain words. Each is a headline and a line below it, as the side reads it whose call it is.

/** 0:07, 12:30, 1:02:03. */
export const clock = (ms) => {
  const seconds = Math.floor(Math.max(0, ms) / 1000);
  const hours = Math.floor(seconds / 3600);
  const two = (number) => String(number).padStart(2, "0");
  const minutes = Math.floor(seconds / 60) % 60;
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
};

/** Why somebody did not come in after the answer (`missing` of `call.ended`). */
const missing = {
  "ice": "no way to the relay was found", "dtls": "the encryption could not be set up",
  "fingerprint": "the certificate was another one", "no-srtp-profile": "no common encryption was found",
  "no-join": "the app did not join",
};

const hungUp = {
  "lost": (call) => call.end.by === call.me ? "Your connection was lost." : `The connection of ${call.name} was lost.`,
  "idle": () => "The call was silent for too long.",
  "server": () => "The server ended the call.",
};

function ended(call) {
  const { reason, by, durationMs } = call.end;
  const headline = by === call.me ? "You hung up." : by === call.other ? `${call.name} hung up.`
    : hungUp[reason]?.(call) ?? "The call has ended.";
  return [headline, durationMs ? `You talked for ${clock(durationMs)}.` : "You were not connected yet."];
}

const asCaller = {
  rejected: (call) => [`${call.name} declined.`, "They do not want to talk now."],
  busy: (call) => [`${call.name} is busy.`, "Try again in a while."],
  cancelled: () => ["You cancelled the call.", "Nobody had answered yet."],
  unanswered: (call) => ["No answer.", `${call.name} was reached but did not answer.`],
  unreachable: (call) => [`${call.name} could not be reached.`, "None of their devices was online."],
};

const asCallee = {
  rejected: (call) => call.isOwnDoing ? ["You declined.", ""] : ["Declined on another device.", ""],
  busy: (call) => [`${call.isOwnDoing ? "You" : "Another device"} said that you are busy.`, ""],
  cancelled: (call) => [`Missed call from ${call.name}.`, "They gave up."],
  unanswered: (call) => [`Missed call from ${call.name}.`, "It rang until the time was up."],
  unreachable: (call) => [`Missed call from ${call.name}.`, "It rang until the time was up."],
};

const either = {
  ended,
  failed: (call) => {
    const who = (call.end.missing ?? []).map(({ uid, reason }) =>
      `${uid === call.me ? "You" : call.name}: ${missing[reason] ?? reason}.`);
    return ["The call could not be connected.", who.join(" ")];
  },
  lost: (call) => [hungUp.lost(call), call.end.durationMs ? `You talked for ${clock(call.end.durationMs)}.` : ""],
  expired: () => ["The call has expired.", "Nobody joined in time."],
  drained: () => ["The call was ended.", "The relay is being shut down."],
  "node-lost": () => ["The call broke off.", "The relay's media process failed."],
};

/** `[headline, detail]` of a call that is over. */
export function inWords(call) {
  if (call.end.elsewhere) return [`${call.name}: answered on another device.`, ""];
  const { outcome } = call.end;
  const words = either[outcome] ?? (call.isCaller ? asCaller : asCallee)[outcome];
  return words?.(call) ?? ["The call has ended.", ""];
}

const logged = {
  out: {
    answered: "Outgoing", rejected: "Declined", busy: "Busy", cancelled: "Cancelled", unanswered: "No answer",
    unreachable: "Not reached",
  },
  in: { answered: "Incoming", missed: "Missed", rejected: "You declined", busy: "You were busy" },
};

/** An entry of the call log, for the user `me`. */
export function logEntry(entry, me) {
  const direction = entry.caller === me ? "out" : "in";
  return {
    direction, other: direction === "out" ? entry.callees[0] : entry.caller, isMissed: entry.status === "missed",
    words: logged[direction][entry.status] ?? "Failed", duration: entry.durationMs ? clock(entry.durationMs) : "",
  };
}
