// A followed session: its fold, and the data loaded with it.

import { Fold } from "./fold.js";
import { Watched } from "./state.js";

const LONG = 500; // events
const PEEK = 500; // ms to wait for the newest messages before the whole log is read
const STATE = 1000; // ms to wait for a runner to report the length of the log, which can be read without it

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Followed extends Watched {
  fold = new Fold();
  events = []; // the whole log, for the time line
  loaded = false;
  preview = null; // a fold of the newest messages, until the log is loaded
  error = "";
  stats = null;
  #stop = new AbortController();

  constructor(bus, id) {
    super();
    this.bus = bus;
    this.id = id;
    try {
      this.session = bus.session(id);
    } catch (err) {
      this.error = err.message; // the id is not valid
      return;
    }
    this.#follow();
    this.#ask();
  }

  async #follow() {
    const signal = this.#stop.signal;
    try {
      const peeked = this.#peek(signal); // requested at once: it is shown first if the session is long
      const { seq } = await this.session.state({ signal, timeout: STATE }).catch(() => ({ seq: 0 })); // up to where the log has to be loaded
      this.loaded = seq === 0;
      this.change();
      if (seq > LONG) await Promise.race([peeked, sleep(PEEK)]); // reading the whole log keeps the page too busy to show the messages
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

  /** Shows the newest messages while the log is read. Returns when they are on the screen. */
  async #peek(signal) {
    try {
      const { messages } = await this.session.messages({ limit: 20 }, { signal });
      if (this.fold.seq > 0) return;
      this.preview = new Fold().recall(messages);
      this.change();
      if (!document.hidden) await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    } catch {
      // the log contains them, too
    }
  }

  async #ask() {
    try {
      this.stats = await this.session.stats({ signal: this.#stop.signal });
      this.change();
    } catch {
      // a session without events has none
    }
  }

  stop() {
    this.#stop.abort();
  }
}
