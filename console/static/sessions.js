// The list of sessions: pages of the runners' index. The first page is polled while the list is visible.

import { askedKey, byTime } from "./format.js";
import { Watched } from "./state.js";

const PAGE = 100;
const AGAIN = 1000; // ms
const ASKED = 3000; // ms after which the page reports that no runner answers

/** Gives sessions the time of their last activity as text that sorts by time. */
function dated(page) {
  for (const s of page.sessions) s.at = s.lastActivity.replace("Z", "");
  return page;
}

export class SessionList extends Watched {
  rows = []; // newest first
  byId = new Map();
  loaded = false;
  partial = false;
  error = "";
  more = true;
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
      const page = await this.bus.sessions({ ...this.query, limit: PAGE }, { signal, timeout: ASKED });
      if (!this.loaded) this.#next = page.next;
      this.loaded = true;
      this.partial = page.partial === true;
      this.more = this.#next !== undefined;
      const error = this.error;
      this.error = "";
      const shown = JSON.stringify(page.sessions);
      if (shown !== this.#shown || error) {
        this.#shown = shown;
        this.#front(dated(page));
      }
    } catch (err) {
      if (signal.aborted) return;
      this.error = err.message;
      this.change();
    }
  }

  /** Puts the first page in front. It drops sessions in its range of time that it does not have. */
  #front({ sessions, next }) {
    const ids = new Set(sessions.map((s) => s.session));
    const oldest = next ? (sessions.at(-1)?.at ?? "") : "";
    const rest = this.rows.filter((s) => !ids.has(s.session) && (s.at <= oldest || !this.byId.delete(s.session)));
    this.#order(sessions, rest, sessions);
  }

  /** Appends a page. A session that is listed again replaces its older row. */
  #append({ sessions }) {
    const news = sessions.filter((s) => !(this.byId.get(s.session)?.seq >= s.seq));
    const again = new Set(news.filter((s) => this.byId.has(s.session)).map((s) => s.session));
    this.#order(again.size ? this.rows.filter((s) => !again.has(s.session)) : this.rows, news, news);
  }

  /** Merges two lists, newest first, into one. */
  #order(front, rest, news) {
    for (const s of news) this.byId.set(s.session, s);
    this.rows = front.concat(rest);
    // Both are sorted, but for sessions that have changed since.
    if (front.length > 0 && rest.length > 0 && front.at(-1).at < rest[0].at) this.rows.sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : 0));
    this.change();
  }

  /** Loads the next page. */
  async load() {
    if (this.#loading || this.#next === undefined) return;
    this.#loading = true;
    try {
      const page = dated(await this.bus.sessions({ ...this.query, limit: 1000, cursor: this.#next }, { signal: this.#stop.signal }));
      this.#next = page.next;
      this.more = page.next !== undefined;
      this.#append(page);
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
          if (a.waiting) waiting.set(askedKey(a), a);
          else waiting.delete(askedKey(a));
          this.list = [...waiting.values()].sort((x, y) => byTime(x.requested, y.requested));
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
