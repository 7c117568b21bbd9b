// One call between this tab and one other user, from the ring to the outcome.
//
// Owns the call's state and its session with the relay. The state is what the relay's events say; what the user does
// is only asked for here, and shown when it has happened. Knows nothing of the page: `changed` is called when there
// is something new.

import { Session, ask, openDevices } from "/session.js";

/** `calling` (nobody reached yet) → `ringing` → `connecting` (answered) → `connected` → `over`. */
export class Call {
  constructor({ room, token, me, device, other, name, media, isCaller, changed }) {
    Object.assign(this, { room, token, me, device, other, name, media, isCaller, changed });
    this.state = isCaller ? "calling" : "ringing";
    this.session = new Session({ room, token, progress: (step) => this.noteProgress(step) });
    this.stream = null;
    this.problems = [];
    this.joined = new Set();
    this.startedAt = null;
    /** How it ended: `{outcome, reason, by, durationMs, missing}`, or `{elsewhere: "answered"}`. */
    this.end = null;
    /** Whether it ended by what was done in this very tab. */
    this.isOwnDoing = false;
    this.isQuiet = false;
    /** What each side sends, as the relay tells it. */
    this.own = { audio: "on", video: "on", held: false };
    this.theirs = { ...this.own };
    /** Who would like to make a video call of it: `own`, `theirs` or null. */
    this.videoWish = null;
    this.isDeclinedVideo = false;
    /** Own and the other's media path: `good` or `interrupted`. */
    this.path = this.otherPath = "good";
  }

  get isOver() { return this.state === "over"; }
  get isAnswered() { return this.state === "connecting" || this.state === "connected"; }

  // MARK: What the user does

  /** The caller: sends from now on, and is in when the callee answers. The relay's gate is shut until then. */
  async prepareAsCaller(stream) {
    this.stream = stream;
    // The newest key frame is kept for the callee, who would else wait for one: 150 ms at 50 ms one way.
    const early = this.media === "video" ? "&earlyKeyFrame=1" : "";
    await this.session.prepare({ stream, query: `state=prepared&join=on-answer${early}` });
  }

  /** The callee's device: tells that it rings, and makes the media path ready. No camera, no microphone yet. */
  prepareAsCallee() {
    this.prepared = this.ask("ringing").then(() => this.session.prepare());
    return this.prepared;
  }

  /** Joining is the answer. The devices open meanwhile: the caller is heard and seen before they are ready. */
  async answer({ endOthers = false } = {}) {
    this.become("connecting");
    const devices = openDevices({ video: this.media === "video" });
    try {
      await this.prepared.catch(() => this.prepareAgain());
      await this.session.join(endOthers ? "end=others" : "");
    } catch (error) {
      devices.then(({ stream }) => stream.getTracks().forEach((track) => track.stop()), () => {});
      return this.refused(error);
    }
    const { stream, problems } = await devices;
    this.problems = problems;
    this.stream = stream;
    if (this.isOver) return this.close();
    await this.session.send(stream);
    this.changed(this);
  }

  /** Once more, when the first try came to nothing. */
  prepareAgain() {
    this.session.close();
    this.session = new Session({ room: this.room, token: this.token, progress: (step) => this.noteProgress(step) });
    return this.session.prepare();
  }

  /** `rejected` or `busy`, for every device of this user. */
  async decline(status) {
    this.isOwnDoing = true;
    await this.endWith(status);
  }

  async hangUp() {
    this.isOwnDoing = true;
    await this.endWith(this.isCaller && !this.isAnswered ? "cancelled" : "ended");
  }

  async endWith(status) {
    try {
      this.applyRoom(await (await this.ask("end", { status })).json());
    } catch (error) {
      this.refused(error);
    }
  }

  /** Mute, camera, hold: `{audio: "on" | "muted", video: …, held: bool}`. The relay shuts its gate, tells the other. */
  async change(fields) {
    for (const kind of ["audio", "video"]) {
      for (const track of fields[kind] ? this.tracks(kind) : []) track.enabled = fields[kind] === "on";
    }
    // At once: whoever mutes wants to see it. The relay's event says the same.
    Object.assign(this.own, fields);
    this.changed(this);
    await this.session.change(fields).catch((error) => this.refused(error));
  }

  tracks(kind) { return this.stream?.getTracks().filter((track) => track.kind === kind) ?? []; }

  /** `request` asks the other to make a video call of it; `accept` and `decline` answer that. */
  async video(word) {
    if (word !== "decline" && !await this.openCamera()) return;
    await this.ask("media", { video: word }).catch((error) => this.refused(error));
  }

  /** The camera's track joins the stream; it is sent when the call has become a video call. */
  async openCamera() {
    if (this.tracks("video").length > 0) return true;
    const { stream } = await openDevices({ video: true, audio: false });
    const [track] = stream.getTracks();
    if (track) this.stream.addTrack(track);
    else this.note("camera");
    this.changed(this);
    return track !== undefined;
  }

  /** From a page that goes away. A device that only rings leaves quietly: others may answer. */
  abandon() {
    if (this.isOver) return;
    if (this.isCaller || this.isAnswered) this.ask("end", { status: "ended" }, { keepalive: true }).catch(() => {});
    else this.session.leave({ keepalive: true }).catch(() => {});
  }

  ask(verb, body = null, options = {}) {
    const headers = this.session.authorized(body ? { "Content-Type": "application/json" } : {});
    return ask(`/v1/rooms/${this.room}/${verb}`, {
      method: "POST", headers, body: body && JSON.stringify(body), ...options,
    });
  }

  // MARK: What the relay says

  receive(event) {
    if (this.isOver) return;
    switch (event.type) {
      case "call.ringing": if (this.state === "calling") this.become("ringing"); break;
      case "call.answered":
        if (!this.isCaller && event.device !== this.device) return this.finish({ elsewhere: "answered" });
        if (!this.isAnswered) this.become("connecting");
        break;
      case "participant.joined":
        this.joined.add(event.uid);
        if (this.joined.has(this.me) && this.joined.has(this.other) && this.state !== "connected") {
          this.startedAt = performance.now();
          this.become("connected");
        }
        break;
      case "participant.interrupted": this.notePath(event, "interrupted"); break;
      case "participant.recovered": this.notePath(event, "good"); break;
      case "participant.changed":
        Object.assign(event.uid === this.me ? this.own : this.theirs, event.data);
        this.changed(this);
        break;
      case "media.requested":
        this.videoWish = event.uid === this.me ? "own" : "theirs";
        this.isDeclinedVideo = false;
        this.changed(this);
        break;
      case "media.changed":
        if (event.data.video) this.becomeVideo();
        else this.stayWithAudio(event.reason === "declined" && this.videoWish === "own");
        this.videoWish = null;
        this.changed(this);
        break;
      case "call.ended":
        this.finish({ ...event.data, reason: event.reason });
        break;
    }
  }

  /** The room as the relay has it now: after a break of the line, when events may have been missed. */
  async refresh() {
    try {
      this.applyRoom(await (await ask(`/v1/rooms/${this.room}`, { headers: this.session.authorized() })).json());
    } catch (error) {
      if (error.problem?.status === 404) this.finish({ outcome: "expired", reason: "expired", durationMs: 0 });
    }
  }

  applyRoom(room) {
    if (this.isOver) return;
    const claimer = room.ring?.claimedBy;
    if (room.status === "ended") {
      const durationMs = room.startedAt ? Date.parse(room.endedAt) - Date.parse(room.startedAt) : 0;
      this.finish({ outcome: room.outcome, reason: room.reason, durationMs, by: this.isOwnDoing ? this.me : null });
    } else if (claimer && !this.isCaller && claimer.device !== this.device) {
      this.finish({ elsewhere: "answered" });
    } else if (claimer && !this.isAnswered) {
      this.become("connecting");
    } else if (this.state === "calling" && room.ring?.callees.some(({ state }) => state === "ringing")) {
      this.become("ringing");
    }
  }

  /** A request was refused: the refusal says how things stand. */
  refused(error) {
    const problem = error.problem;
    if (problem?.outcome) this.finish({ outcome: problem.outcome, reason: problem.outcome, durationMs: 0 });
    else if (problem?.code === "answered-elsewhere") this.finish({ elsewhere: "answered" });
    else this.note(error.message);
  }

  becomeVideo() {
    this.media = "video";
    this.session.send(this.stream).catch((error) => this.refused(error));
  }

  stayWithAudio(isDeclined) {
    this.isDeclinedVideo = isDeclined;
    for (const track of this.tracks("video")) {
      track.stop();
      this.stream.removeTrack(track);
    }
  }

  note(problem) {
    this.problems = [...this.problems, problem];
    this.changed(this);
  }

  noteProgress(step) {
    if (step === "disconnected" || step === "failed") this.path = "interrupted";
    else if (step === "connected") this.path = "good";
    else return;
    this.changed(this);
  }

  notePath(event, path) {
    if (event.uid === this.me) this.path = path;
    else this.otherPath = path;
    this.changed(this);
  }

  become(state) {
    this.state = state;
    this.changed(this);
  }

  finish(end) {
    if (this.isOver) return;
    this.end = end;
    this.close();
    this.become("over");
  }

  /** Lets go of camera, microphone and connection. */
  close() {
    this.session.close();
    for (const track of this.stream?.getTracks() ?? []) track.stop();
  }
}
