// The status page: live rooms, ended calls, and both legs of one call over time. Reads the public API with the operator's token
// and nothing else; draws SVG by hand. Owns the token (of this tab), what is chosen, and the pictures.

import { follow } from "/session.js";

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 600;
const HEIGHT = 64;
/** As quality is judged (docs/call-records.md): where dashed lines stand, and what a chart shows at least. */
const BOUNDS = { loss: [2, 10], jitter: [30, 80], roundTrip: [200, 400] };

const page = { token: null, chosen: null, timer: null, listing: null, abort: null, drawn: 0 };

// MARK: The API

async function ask(path) {
  const answer = await fetch(path, { headers: { Authorization: `Bearer ${page.token}`, Accept: "application/json" } });
  if (answer.ok) return answer.json();
  const problem = await answer.json().catch(() => ({}));
  throw Object.assign(new Error(problem.detail ?? `The relay answered ${answer.status}.`), { status: answer.status });
}

async function eventsOf(room) {
  const found = [];
  for (let after = 0; found.length < 5000;) {
    const given = await ask(`/v1/events?room=${encodeURIComponent(room)}&after=${after}&limit=1000`);
    found.push(...given.events);
    if (given.events.length === 0) break;
    after = given.next;
  }
  return found;
}

// MARK: Lists

async function list() {
  const [node, ongoing, initiated, calls] = await Promise.all([
    ask("/v1/node"), ask("/v1/rooms?status=ongoing&limit=100"), ask("/v1/rooms?status=initiated&limit=100"), ask("/v1/calls?limit=30"),
  ]);
  const pill = $("ready");
  pill.hidden = false;
  pill.textContent = node.draining ? "draining" : node.ready ? "ready" : "not ready";
  pill.className = `pill ${node.draining ? "fair" : node.ready ? "good" : "poor"}`;
  const { rooms, participants, workers } = node;
  $("counts").textContent = `Rooms: ${rooms.ongoing} going on, ${rooms.initiated} not yet. `
    + `Participants: ${participants.joined} joined, ${participants.prepared + participants.connecting} on their way. Workers: ${workers}.`;
  fill($("live"), [...ongoing.rooms, ...initiated.rooms], (room) => ({
    id: room.id, state: room.status, grade: room.status === "ongoing" ? "good" : "", who: who(room), since: age(Date.now() - Date.parse(room.createdAt)),
  }), "No live rooms.");
  fill($("ended"), calls.calls, (call) => ({
    id: call.roomId, state: call.outcome, grade: gradeOf(call.outcome), who: who(call), since: age(call.durationMs),
  }), "No ended calls.");
  return { node, rooms: [...ongoing.rooms, ...initiated.rooms] };
}

function who(room) {
  if (room.ring) return `${room.ring.caller} → ${room.ring.callees.map((callee) => callee.uid).join(", ")}`;
  const names = [...new Set((room.participants ?? []).map((one) => one.uid))];
  return names.length ? names.join(", ") : `${room.kind}, ${room.media}`;
}

function gradeOf(outcome) {
  if (outcome === "ended") return "good";
  return ["failed", "lost", "node-lost"].includes(outcome) ? "poor" : "fair";
}

function fill(place, items, view, none) {
  if (!items.length) return place.replaceChildren(make("li", { className: "hint", textContent: none }));
  place.replaceChildren(...items.map((item) => {
    const seen = view(item);
    const button = make("button", { type: "button" }, [
      make("span", { className: "line" }, [
        make("span", { className: "id", textContent: seen.id }),
        make("span", { className: `pill ${seen.grade}`, textContent: seen.state }),
      ]),
      make("span", { className: "line who" }, [make("span", { textContent: seen.who }), make("span", { textContent: seen.since })]),
    ]);
    button.setAttribute("aria-current", String(seen.id === page.chosen));
    button.addEventListener("click", () => choose(seen.id));
    return make("li", {}, [button]);
  }));
}

// MARK: One call

function choose(id) {
  page.chosen = id;
  page.drawn = 0;
  history.replaceState(null, "", `#room=${encodeURIComponent(id)}`);
  refresh();
  for (const button of document.querySelectorAll(".rooms button")) {
    button.setAttribute("aria-current", String(button.querySelector(".id").textContent === id));
  }
}

/** Everything that is drawn of a call, live or ended, in one form. */
async function look(id) {
  const path = `/v1/rooms/${encodeURIComponent(id)}`;
  const events = await eventsOf(id);
  try {
    const call = await ask(`/v1/calls/${encodeURIComponent(id)}`);
    const legs = call.participants.map((leg) => ({ ...leg, id: leg.participantId, state: `left: ${leg.reason}` }));
    return { id, status: call.outcome, grade: gradeOf(call.outcome), who: who(call), legs, events, end: Date.parse(call.endedAt) };
  } catch (error) {
    if (error.status !== 404) throw error;
  }
  const [room, series] = await Promise.all([ask(path), ask(`${path}/series`)]);
  const measured = new Map(series.participants.map((leg) => [leg.participantId, leg]));
  const present = room.participants.map((one) => ({ ...one, series: measured.get(one.id)?.series }));
  const left = series.participants.filter((leg) => leg.leftAt).map((leg) => ({ ...leg, id: leg.participantId, state: "left" }));
  return {
    id, status: room.status, grade: room.status === "ongoing" ? "good" : "", who: who(room), legs: [...left, ...present], events, end: Date.now(),
    isLive: room.status !== "ended",
  };
}

async function refresh() {
  clearTimeout(page.timer);
  const id = page.chosen;
  if (!id) return;
  let isLive = true;
  try {
    const call = await look(id);
    if (page.chosen !== id) return;
    isLive = call.isLive === true;
    draw(call);
    complain("");
  } catch (error) {
    complain(error.message);
  }
  if (isLive && page.chosen === id) page.timer = setTimeout(refresh, 2000);
}

function draw(call) {
  const legs = call.legs.filter((leg) => leg.series?.spanMs?.length);
  const begin = Math.min(...legs.map((leg) => Date.parse(leg.series.from)), call.end - 1000);
  const end = Math.max(call.end, begin + 1000);
  const head = make("header", {}, [
    make("h2", { textContent: call.id }), make("span", { className: `pill ${call.grade}`, textContent: call.status }),
    make("span", { className: "hint", textContent: `${call.who} · ${age(end - begin)}` }),
  ]);
  const keys = [["up", "client to relay"], ["down", "relay to client"], ["away", "nothing came from the client"], ["path", "another path"]];
  const legend = make("ul", { className: "legend" }, keys.map(([name, words]) =>
    make("li", {}, [make("span", { className: `key ${name}` }), document.createTextNode(words)])));
  const others = call.legs.filter((leg) => !leg.series?.spanMs?.length);
  const cards = [...legs.map((leg) => card(leg, call, begin, end)), ...others.map((leg) => card(leg, call, begin, end))];
  $("detail").replaceChildren(head, legend, make("div", { className: "legs" }, cards), story(call));
  page.drawn += 1;
}

function card(leg, call, begin, end) {
  const quality = leg.quality ?? "";
  const parts = [
    make("h3", {}, [
      document.createTextNode(`${leg.uid} (${leg.device})`), make("span", { className: "pill", textContent: leg.interrupted ? "interrupted" : leg.state }),
      ...(quality ? [make("span", { className: `pill ${quality}`, textContent: quality === "good" ? "good" : `${quality}: ${leg.leg}` })] : []),
    ]),
  ];
  const series = leg.series;
  if (!series?.spanMs?.length) {
    parts.push(make("p", { className: "hint", textContent: "Nothing is measured before it has joined." }));
    return make("article", { className: "leg" }, parts);
  }
  const sum = (list) => list.reduce((total, value) => total + value, 0);
  const share = (way) => {
    const [lost, all] = [sum(way.lost), sum(way.packets)];
    return `${lost.toLocaleString("en")} (${(100 * lost / Math.max(1, all + lost)).toFixed(2)} %)`;
  };
  const rest = [["discarded", "not sent by the relay"], ["overflowed", "worker's socket was full"]].filter(([name]) => series[name])
    .map(([name, words]) => [words, sum(series[name]).toLocaleString("en")]);
  parts.push(make("dl", {}, [
    ["lost to the relay", share(series.uplink)], ["lost from the relay", share(series.downlink)],
    ["path changes", String(sum(series.pathChanges ?? []))], ...rest,
  ].map(([name, value]) => make("div", {}, [make("dt", { textContent: name }), make("dd", { textContent: value })]))));
  const marks = marksOf(leg, call.events, end);
  const window = { begin, end, marks, spans: spansOf(series) };
  parts.push(
    chart("Lost", "%", window, { up: series.uplink.lossPercent, down: series.downlink.lossPercent }, BOUNDS.loss, 1),
    chart("Jitter", "ms", window, { up: series.uplink.jitterMs, down: series.downlink.jitterMs }, BOUNDS.jitter, 0),
    chart("Rate", "kbit/s", window, { up: series.uplink.kbps, down: series.downlink.kbps }, [], 0),
    chart("Round trip", "ms", window, { both: series.roundTripMs }, BOUNDS.roundTrip, 0),
    make("div", { className: "axis" }, [make("span", { textContent: "0 s" }), make("span", { textContent: age(end - begin) })]));
  return make("article", { className: "leg" }, parts);
}

function spansOf(series) {
  let at = Date.parse(series.from);
  return series.spanMs.map((span) => [at, at += span]);
}

/** When nothing came from the client, and when its path moved, by the events. */
function marksOf(leg, events, end) {
  const own = events.filter((event) => event.participantId === leg.id);
  const away = [];
  for (const event of own) {
    const at = Date.parse(event.time);
    if (event.type === "participant.interrupted") away.push([at, end]);
    if (["participant.recovered", "participant.left"].includes(event.type) && away.length) {
      const last = away[away.length - 1];
      if (last[1] === end) last[1] = at;
    }
  }
  return { away, paths: own.filter((event) => event.type === "participant.path-changed").map((event) => Date.parse(event.time)) };
}

// MARK: Charts

function chart(title, unit, window, lines, bounds, digits) {
  const most = Math.max(...Object.values(lines).flat(), 0);
  const full = niceCeiling(Math.max(most, bounds[0] ?? 1));
  const x = (ms) => WIDTH * (ms - window.begin) / (window.end - window.begin);
  const y = (value) => HEIGHT - (HEIGHT - 2) * Math.min(value, full) / full;
  const picture = document.createElementNS(SVG, "svg");
  const words = Object.entries(lines).map(([name, values]) => `${name} at most ${Math.max(...values, 0).toFixed(digits)} ${unit}`).join(", ");
  set(picture, { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${words}` });
  const add = (name, attributes) => {
    const element = document.createElementNS(SVG, name);
    set(element, attributes);
    picture.append(element);
    return element;
  };
  for (const [from, to] of window.marks.away) {
    add("rect", { class: "away", x: x(from), y: 0, width: Math.max(2, x(to) - x(from)), height: HEIGHT });
  }
  add("path", { class: "frame", d: `M0 ${HEIGHT}H${WIDTH}` });
  for (const bound of bounds) if (bound <= full) add("path", { class: "bound", d: `M0 ${y(bound)}H${WIDTH}` });
  for (const at of window.marks.paths) add("path", { class: "path", d: `M${x(at)} 0V${HEIGHT}` });
  for (const [name, values] of Object.entries(lines)) {
    const steps = window.spans.map(([from, to], index) => `${index ? "L" : "M"}${x(from).toFixed(1)} ${y(values[index]).toFixed(1)}H${x(to).toFixed(1)}`);
    add("path", { class: name, d: steps.join("") });
  }
  return make("figure", { className: "chart" }, [
    make("figcaption", {}, [
      make("span", { textContent: `${title}, ${unit}` }), make("span", { textContent: `top ${full} · most ${most.toFixed(digits)}` }),
    ]), picture,
  ]);
}

function niceCeiling(value) {
  const step = 10 ** Math.floor(Math.log10(value));
  for (const factor of [1, 2, 2.5, 5, 10]) if (value <= factor * step) return factor * step;
  return value;
}

// MARK: What happened

const TOLD = new Set(["call.ringing", "call.answered", "call.ended", "participant.prepared", "participant.joined", "participant.left",
  "participant.interrupted", "participant.recovered", "participant.path-changed", "participant.quality", "media.changed"]);

function story(call) {
  const shown = call.events.filter((event) => TOLD.has(event.type)).slice(-40);
  const begin = call.events.length ? Date.parse(call.events[0].time) : 0;
  const rows = shown.map((event) => {
    const facts = Object.entries(event.data).filter(([, value]) => typeof value !== "object").map(([name, value]) => `${name} ${value}`);
    const name = event.uid ? `${event.uid}${event.device ? ` (${event.device})` : ""}` : "";
    return make("tr", {}, [
      `+${((Date.parse(event.time) - begin) / 1000).toFixed(1)} s`, event.type, name, [event.reason, ...facts].filter(Boolean).join(", "),
    ].map((textContent) => make("td", { textContent })));
  });
  return make("div", { className: "story" }, [make("h2", { textContent: "What happened" }), make("table", {}, rows)]);
}

// MARK: Small things

function make(name, properties, children = []) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
}

function age(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds % 3600 / 60)} min`;
}

function complain(words) {
  $("problem").textContent = words;
  $("problem").hidden = words === "";
}

// MARK: Start

async function open(token) {
  page.token = token;
  try {
    await list();
  } catch (error) {
    page.token = null;
    sessionStorage.removeItem("token");
    return complain(error.message);
  }
  complain("");
  sessionStorage.setItem("token", token);
  $("login").hidden = true;
  $("board").hidden = false;
  page.abort?.abort();
  page.abort = new AbortController();
  // Whatever is told may change the lists; many events make one look.
  follow("/v1/events", {
    headers: { Authorization: `Bearer ${token}` }, signal: page.abort.signal, isOver: () => false,
    receive: () => { page.listing ??= setTimeout(() => { page.listing = null; list().catch((error) => complain(error.message)); }, 500); },
  });
  setInterval(() => { if (!page.listing) list().catch((error) => complain(error.message)); }, 10000);
  const room = new URLSearchParams(location.hash.slice(1)).get("room");
  if (room) choose(room);
}

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  open($("token").value.trim());
});

// A link may bring the token along; it is not left in the address, which browsers remember.
const given = new URLSearchParams(location.hash.slice(1));
const token = given.get("token") ?? sessionStorage.getItem("token");
if (given.has("token")) {
  given.delete("token");
  history.replaceState(null, "", `${location.pathname}${given.size ? `#${given}` : ""}`);
}
if (token) open(token);
