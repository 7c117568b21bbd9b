// The page's line to the signaling server: who I am, who is here, what rings, what becomes of calls. One stream for a
// tab.

import { ask, follow, sleep } from "/session.js";

export class Signaling {
  /** `receive(message)` gets every message of the server; `state(isUp)` is told when the line breaks and is back. */
  constructor({ receive, state }) {
    Object.assign(this, { receive, state });
    this.uid = this.device = this.session = null;
    this.abort = null;
  }

  async logIn(name) {
    Object.assign(this, await this.post("/login", { name }));
    this.abort = new AbortController();
    this.listen(this.abort.signal);
  }

  async logOut() {
    this.abort?.abort();
    if (this.session) await this.post("/logout", {}).catch(() => {});
    this.session = null;
  }

  async listen(signal) {
    while (!signal.aborted) {
      const status = await follow("/stream", {
        headers: this.authorized(), signal, receive: this.receive,
        opened: () => this.state(true), broken: () => this.state(false),
      });
      if (status !== 401 || signal.aborted) return;
      // The server was started anew and knows nobody: the same user, a new device.
      await this.post("/login", { name: this.uid }).then((given) => Object.assign(this, given), () => sleep(1000));
    }
  }

  /** Starts a call: `{room, token}` for the caller. */
  place(to, media) { return this.post("/calls", { to, media }); }

  async log() { return (await (await ask("/calls", { headers: this.authorized() })).json()).calls; }

  authorized(headers = {}) { return this.session ? { Authorization: `Bearer ${this.session}`, ...headers } : headers; }

  async post(path, body) {
    const headers = this.authorized({ "Content-Type": "application/json" });
    return (await ask(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
  }
}
