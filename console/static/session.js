// A session that is followed: its fold, and what was loaded with it.

import { Fold } from "./fold.js";
import { Watched } from "./state.js";

export class Followed extends Watched {
  fold = new Fold();
  events = []; // all of the log, for the time line
  loaded = false;
  error = "";
  stats = null;
  #stop = new AbortController();

  constructor(bus, id) {
    super();
    this.bus = bus;
    this.id = id;
    this.session = bus.session(id);
    this.#follow();
    this.#ask();
  }

  async #follow() {
    const signal = this.#stop.signal;
    try {
      const { seq } = await this.session.state({ signal }).catch(() => ({ seq: 0 })); // how far there is something to load
      this.loaded = seq === 0;
      this.change();
      for await (const item of this.session.watch(1, { signal })) {
        this.fold.apply(item);
        if (item.event) this.events.push(item.event);
        if (this.fold.seq >= seq) this.loaded = true;
        if (this.loaded) this.change();
        if (item.event?.type === "agent_end" || item.event?.type === "command_applied") this.#ask();
      }
    } catch (err) {
      if (signal.aborted) return;
      this.error = err.message;
      this.loaded = true;
      this.change();
    }
  }

  async #ask() {
    try {
      this.stats = await this.session.stats({ signal: this.#stop.signal });
      this.change();
    } catch {
      // a session that has not begun has none
    }
  }

  stop() {
    this.#stop.abort();
  }
}
