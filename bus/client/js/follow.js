// Follows one session: its log, merged with its live feed.

import { eventsOf, updateOf } from "./log.js";
import { added, DamagedError, passing, Waker } from "./stored.js";

const LIVE_MESSAGES = 4096; // that wait for a slow reader; what comes then is dropped, and read from the log
const FIRST_CHECK = 250; // ms after which a quiet log is asked whether it has more; then twice that, and so on
const LAST_CHECK = 5000;
const MIN_CATCH_UP = 250; // ms between two readings because of an update, which anybody can cause
const MAX_STREAMED = 32 << 20; // characters of a reply's updates: whoever executes tools may publish them without an end
const UPDATE_COST = 64; // what each and each of its parts counts besides

/** A subscription to a part of the live feed. */
export class Tap {
  live = [];
  dropped = false;
  #waker = new Waker();

  constructor(link, subject) {
    this.link = link;
    this.epoch = link.epoch;
    this.sub = link.nc.subscribe(subject, {
      callback: (err, m) => {
        if (err) this.error = err;
        else if (this.live.length < LIVE_MESSAGES) this.live.push(m);
        else this.dropped = true;
        this.#waker.wake();
      },
    });
    this.ended = link.onChange(this.#waker.wake);
  }

  /** Returns once the server knows of it. */
  async ready(signal) {
    await this.link.persist(() => this.link.nc.flush(), { signal });
    if (this.error) throw this.error;
  }

  /**
   * The next message, or null when time is over, or undefined when something may have been missed.
   */
  async next(end, signal) {
    for (;;) {
      signal?.throwIfAborted();
      if (this.error) throw this.error;
      if (this.link.closed) this.link.check();
      if (this.live.length > 0) return this.live.shift();
      if (this.dropped || (this.epoch !== this.link.epoch && this.link.up)) {
        this.dropped = false;
        return undefined;
      }
      if (Date.now() >= end) return null;
      await this.#waker.sleep(end - Date.now(), signal);
    }
  }

  /** Whether the connection was lost since it was asked last. */
  lost() {
    const lost = this.epoch !== this.link.epoch;
    this.epoch = this.link.epoch;
    return lost;
  }

  close() {
    this.ended();
    if (!this.link.closed) this.sub.unsubscribe();
  }
}

/** A message as a server sends it out once it is stored, undefined if it is none. */
export function republished(m) {
  if (added(m.headers, "Nats-Stream") !== "AGENT_EVT") return undefined;
  const seq = Number(added(m.headers, "Nats-Sequence"));
  return seq > 0 ? { subject: added(m.headers, "Nats-Subject"), seq, headers: m.headers, data: m.data } : undefined;
}

/**
 * The place of the last message of a session's log: its sequence in the stream and that of its last event, 0 for both
 * where there is none. A foreign message at the end has the whole log read.
 */
export async function head(link, subjects, session, timeout) {
  const m = await link.last("AGENT_EVT", subjects.event(session), timeout);
  if (!m) return { stream: 0, seq: 0 };
  const events = eventsOf(session, m);
  if (events) return { stream: m.seq, seq: events.at(-1).seq };
  const at = { stream: 0, seq: 0 };
  for await (const m of link.stored("AGENT_EVT", subjects.event(session))) {
    at.stream = m.seq;
    at.seq = eventsOf(session, m)?.at(-1).seq ?? at.seq;
  }
  return at;
}

/** Merges a session's log with its live feed. One loop uses it. */
export class Follower {
  #open = new Map(); // what is being streamed, by the sequence of its event: {n, time, torn}
  #message = 0; // the reply among it
  #deltas = 0; // read so far of the stream of updates
  #caughtUp = 0;

  /** from is the first event that is yielded, 0 for from now on; at is a place of the log before it. */
  constructor(link, subjects, session, { from = 1, at = { stream: 0, seq: 0 }, updates = true, signal } = {}) {
    Object.assign(this, { link, subjects, session, updates, signal });
    this.at = { ...at };
    this.fromNow = from === 0;
    this.from = from === 0 ? Infinity : from;
  }

  /** Yields what is stored now. */
  stored() {
    return this.#catchUp();
  }

  /** Yields what is stored, then what happens. */
  async *run() {
    const { subjects, session, signal } = this;
    const tap = new Tap(this.link, this.updates ? subjects.live(session, ">") : subjects.live(session, "event"));
    try {
      await tap.ready(signal); // first subscribe, then read: what is stored in between comes twice
      for (;;) {
        yield* this.#catchUp();
        if (this.fromNow) {
          this.fromNow = false;
          this.from = this.at.seq + 1;
          yield* this.#catchUp(); // for the updates of what is open
        }
        yield* this.#listen(tap);
      }
    } finally {
      tap.close();
    }
  }

  async *#catchUp() {
    const read = async function* () {
      yield* this.#readLog();
      if (this.updates && !this.fromNow && this.#open.size > 0) yield* this.#readUpdates();
    };
    yield* this.link.untilRead(read.bind(this), this.signal);
    this.#caughtUp = Date.now();
  }

  async *#readLog() {
    const { session, signal } = this;
    const after = this.at.stream;
    for await (const m of this.link.stored("AGENT_EVT", this.subjects.event(session), { after, signal })) {
      const events = eventsOf(session, m);
      if (!events) {
        this.at.stream = m.seq; // somebody had a server answer there: no part of the log
        continue;
      }
      const first = events[0].seq;
      const last = events.at(-1).seq;
      if (first > this.at.seq + 1 || last <= this.at.seq) {
        throw new DamagedError(`events ${first} to ${last} of session ${session} follow event ${this.at.seq}`);
      }
      yield* this.#commit(m, events);
    }
  }

  /** Yields the updates that the server has kept of what is being streamed. */
  async *#readUpdates() {
    const { session, signal } = this;
    try {
      const subject = this.subjects.live(session, "update");
      for await (const m of this.link.stored("AGENT_UPD", subject, { after: this.#deltas, signal })) {
        const u = updateOf(session, m);
        const s = u && this.#open.get(u.event);
        if (s) {
          if (fits(s, u) === "missing") s.torn = true; // the stream has dropped it
          yield* this.#update(s, u);
        }
        this.#deltas = m.seq;
      }
    } catch (err) {
      if (err.code !== 10059) throw err; // a stream in memory is gone after a restart until a runner has made it again
    }
  }

  /** Yields what comes live. It returns when there may be something that has not come. */
  async *#listen(tap) {
    let interval = FIRST_CHECK;
    let check = Date.now() + interval;
    for (;;) {
      const m = await tap.next(check, this.signal);
      if (m === undefined) {
        if (tap.lost()) this.#deltas = 0; // a stream in memory begins anew with its server
        return;
      }
      if (m === null) {
        try {
          if ((await head(this.link, this.subjects, this.session)).stream > this.at.stream) return;
        } catch (err) {
          if (!passing(err)) throw err;
        }
        interval = Math.min(2 * interval, LAST_CHECK);
        check = Date.now() + interval;
        continue;
      }
      if (m.subject === this.subjects.live(this.session, "update")) {
        const u = updateOf(this.session, m);
        if (!u) continue;
        const s = this.#open.get(u.event);
        const fit = s && fits(s, u);
        if (fit === "missing" || (!s && u.event > this.at.seq)) {
          if (Date.now() - this.#caughtUp >= MIN_CATCH_UP) return;
        } else if (fit === "next") {
          yield* this.#update(s, u);
        }
        continue;
      }
      const rec = republished(m);
      if (!rec || rec.seq <= this.at.stream) continue;
      let events;
      try {
        events = eventsOf(this.session, rec);
        if (!events) continue;
      } catch {
        return; // the log itself says what is right
      }
      if (events[0].seq > this.at.seq + 1 || events.at(-1).seq <= this.at.seq) return;
      if (rec.subject !== this.subjects.event(this.session)) return;
      if (events.some((e) => e.dataref !== undefined)) return; // data from elsewhere is fetched where it is asked for again
      yield* this.#commit(rec, events);
    }
  }

  /** Yields the events of a message, but for those seen already and those before from. */
  async *#commit(m, events) {
    for (const e of events) {
      if (e.seq <= this.at.seq) continue;
      if (e.seq >= this.from && e.dataref !== undefined) e.data = JSON.parse(await this.link.blob(e.dataref, this.signal));
      this.#track(e);
      this.at.seq = e.seq;
      if (e.seq >= this.from) yield { event: e };
    }
    this.at.stream = m.seq;
  }

  #track(e) {
    switch (e.type) {
      case "message_start":
        this.#open.delete(this.#message);
        this.#message = e.seq;
        this.#open.set(e.seq, { n: 0, time: "", message: true, size: 0 });
        break;
      case "message_end":
        this.#open.delete(this.#message);
        break;
      case "tool_execution_start":
        this.#open.set(e.seq, { n: 0, time: "" });
        break;
      case "tool_execution_end":
        this.#open.delete(Number((e.data?.call ?? "").slice(1)));
        break;
      case "agent_end":
        this.#open.clear();
    }
  }

  *#update(s, u) {
    if (fits(s, u) !== "next") return;
    if (s.message && (s.size += sizeOf(u)) > MAX_STREAMED) {
      s.torn = true; // the rest comes with its message_end
      return;
    }
    s.n = u.n;
    s.time = u.time;
    yield { update: u };
  }
}

/** What a message's update counts for whoever keeps it. */
function sizeOf(u) {
  let size = UPDATE_COST;
  for (const e of u.data.assistantMessageEvents) {
    size += UPDATE_COST + (e.delta ?? e.content ?? "").length + (e.id ?? "").length + (e.toolName ?? "").length;
  }
  return size;
}

/**
 * Where an update stands. Those of a reply add to one another and need each other. A tool's replace the one before, and
 * begin at 1 again when the call is executed again: what tells the executions apart is their time.
 */
function fits(s, u) {
  const tool = u.type === "tool_execution_update";
  if (tool === Boolean(s.message)) return "known"; // it says that it is what its event is not
  if (tool) {
    const later = Date.parse(u.time) - (Date.parse(s.time) || 0);
    return later > 0 || (later === 0 && u.n > s.n) ? "next" : "known";
  }
  if (s.torn || u.n <= s.n) return "known";
  return u.n === s.n + 1 ? "next" : "missing";
}
