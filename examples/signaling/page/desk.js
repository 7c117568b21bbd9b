// The desk: who is here, and the calls that were.

import { $, element } from "/dom.js";
import { logEntry } from "/words.js";

/** `isBusy`: nobody can be called now. `place(uid, media)` calls somebody. */
export function showPeople(people, { isBusy, place }) {
  $("nobody").hidden = people.length > 0;
  const focused = document.activeElement?.id;
  $("people").replaceChildren(...people.map(({ uid, online }) => element("li", { className: "person" }, [
    element("span", { className: "dot", dataset: { state: online ? "online" : "offline" } }),
    element("span", { className: "who" }, [
      element("b", { textContent: uid }), element("span", { textContent: online ? "online" : "offline" }),
    ]),
    ...["audio", "video"].map((media) => element("button", {
      type: "button", id: `call-${uid}-${media}`, textContent: media === "audio" ? "Audio" : "Video", disabled: isBusy,
      ariaLabel: `${media === "audio" ? "Audio" : "Video"} call to ${uid}`, onclick: () => place(uid, media),
    })),
  ])));
  $("to-audio").disabled = $("to-video").disabled = isBusy;
  if (focused?.startsWith("call-")) $(focused)?.focus();
}

/** Calls of the user `me`, the newest first. */
export function showLog(entries, me) {
  $("no-calls").hidden = entries.length > 0;
  $("log").replaceChildren(...entries.map((entry) => {
    const { direction, other, isMissed, words, duration } = logEntry(entry, me);
    const time = new Date(entry.at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    return element("li", { className: isMissed ? "entry missed" : "entry" }, [
      element("span", { className: "arrow", textContent: direction === "out" ? "↗" : "↙", ariaHidden: "true" }),
      element("span", { className: "who" }, [
        element("b", { textContent: other }),
        element("span", { textContent: `${words} · ${entry.media}${duration && ` · ${duration}`}` }),
      ]),
      element("time", { dateTime: entry.at, textContent: time }),
    ]);
  }));
}
