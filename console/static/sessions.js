// The list of sessions: pages of the runners' index, the first of which is asked again and again while somebody looks.

import { Watched } from "./state.js";

const PAGE = 100;
const AGAIN = 1000; // ms

export class SessionList extends Watched {
  rows = [];
  loaded = false;
  partial = false;
  error = "";
  more = true;
  #byId = new Map();
  #next;
  #loading = false;
  #stop = new AbortController();
  #shown = "";

  constructor(bus, query) {
    super();
    this.bus = bus;
    this.query = query;
    this.#run();
  }

  async #run() {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      if (!document.hidden || !this.loaded) await this.#first(signal);
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, AGAIN);
        signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
      });
    }
  }

  async #first(signal) {
    try {
      const page = await this.bus.sessions({ ...this.query, limit: PAGE }, { signal });
      if (!this.loaded) this.#next = page.next;
      this.loaded = true;
      this.partial = page.partial === true;
      this.more = this.#next !== undefined;
      const error = this.error;
      this.error = "";
      // Sessions that fit no more are gone from the first page, and known by lying within its time.
      const ids = new Set(page.sessions.map((s) => s.session));
      const oldest = page.next ? page.sessions.at(-1)?.lastActivity : "";
      for (const s of this.rows) if (!ids.has(s.session) && s.lastActivity > (oldest ?? "")) this.#byId.delete(s.session);
      const shown = JSON.stringify(page.sessions);
      if (shown !== this.#shown || error) {
        this.#shown = shown;
        this.#take(page.sessions);
      }
    } catch (err) {
      if (signal.aborted) return;
      this.error = err.message;
      this.change();
    }
  }

  #take(sessions) {
    for (const s of sessions) this.#byId.set(s.session, s);
    this.rows = [...this.#byId.values()].sort((a, b) => (a.lastActivity < b.lastActivity ? 1 : a.lastActivity > b.lastActivity ? -1 : 0));
    this.change();
  }

  /** Loads the page that follows. */
  async load() {
    if (this.#loading || this.#next === undefined) return;
    this.#loading = true;
    try {
      const page = await this.bus.sessions({ ...this.query, limit: 1000, cursor: this.#next }, { signal: this.#stop.signal });
      this.#next = page.next;
      this.more = page.next !== undefined;
      this.#take(page.sessions);
    } catch (err) {
      this.error = err.message;
    }
    this.#loading = false;
    this.change();
  }

  stop() {
    this.#stop.abort();
  }
}

/** The calls of all sessions that wait for approval. */
export class Waiting extends Watched {
  list = [];
  #stop = new AbortController();

  constructor(bus) {
    super();
    this.bus = bus;
    this.#run();
  }

  async #run() {
    const waiting = new Map();
    while (!this.#stop.signal.aborted) {
      try {
        for await (const a of this.bus.approvals({ signal: this.#stop.signal })) {
          if (a.waiting) waiting.set(`${a.session}/${a.seq}`, a);
          else waiting.delete(`${a.session}/${a.seq}`);
          this.list = [...waiting.values()].sort((x, y) => (x.requested < y.requested ? -1 : 1));
          this.change();
        }
      } catch (err) {
        if (this.#stop.signal.aborted) return;
        this.error = err.message;
        this.change();
        await new Promise((resolve) => setTimeout(resolve, 5000));
      }
    }
  }

  stop() {
    this.#stop.abort();
  }
}
