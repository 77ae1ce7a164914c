// A session that is followed: its fold, and what was loaded with it.

import { Fold } from "./fold.js";
import { Watched } from "./state.js";

const LONG = 500; // events

export class Followed extends Watched {
  fold = new Fold();
  events = []; // all of the log, for the time line
  loaded = false;
  preview = null; // a fold of the newest messages, until it is loaded
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
      if (seq > LONG) this.#peek();
      for await (const item of this.session.watch(1, { signal })) {
        this.fold.apply(item);
        if (item.event) this.events.push(item.event);
        if (this.fold.seq >= seq) this.loaded = true;
        if (this.loaded) this.change();
        if (this.loaded && (item.event?.type === "agent_end" || item.event?.type === "command_applied")) this.#ask();
      }
    } catch (err) {
      if (signal.aborted) return;
      this.error = err.message;
      this.loaded = true;
      this.change();
    }
  }

  /** Has the newest messages shown while the log is read. */
  async #peek() {
    try {
      const { messages } = await this.session.messages({ limit: 20 }, { signal: this.#stop.signal });
      this.preview = new Fold().recall(messages);
      this.change();
    } catch {
      // the log has them too
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
