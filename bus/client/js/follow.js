// Follows one session: its log, merged with its live feed.

import { eventsOf, updateOf } from "./log.js";
import { parse } from "./numbers.js";
import { added, bytesOf, DamagedError, DeletedError, isReadable, isTransient, MOST_BYTES, NO_STREAM, Waker } from "./stored.js";

// Limit of live messages that wait for a slow reader, besides MOST_BYTES. More are dropped, and read from the log.
const LIVE_MESSAGES = 4096;
const FIRST_CHECK = 250; // ms after which a quiet log is checked for missed messages; doubles up to LAST_CHECK
const LAST_CHECK = 5000;
const MIN_CATCH_UP = 250; // minimum ms between two reads of the log that an update triggers, which any publisher of updates can do
const MAX_STREAMED = 32 << 20; // limit of characters of a reply's updates: any publisher of updates could publish without end
const UPDATE_COST = 64; // what each update and each of its parts counts in addition to its text

/** A subscription to a part of the live feed. */
export class Tap {
  live = [];
  dropped = false;
  #bytes = 0; // of live
  #waker = new Waker();

  constructor(link, subject) {
    this.link = link;
    this.epoch = link.epoch;
    this.sub = link.nc.subscribe(subject, {
      callback: (err, m) => {
        if (err) this.error = err;
        else if (!isReadable(m)) return; // as if it were lost on its way
        else if (this.live.length >= LIVE_MESSAGES || this.#bytes + bytesOf(m) > MOST_BYTES) this.dropped = true;
        else {
          this.live.push(m);
          this.#bytes += bytesOf(m);
        }
        this.#waker.wake();
      },
    });
    this.ended = link.onChange(this.#waker.wake);
  }

  /** Returns once the server has confirmed the subscription. */
  async ready(signal) {
    await this.link.retry(() => this.link.nc.flush(), { signal });
    if (this.error) throw this.error;
  }

  /** Returns the next message, null when end is reached, or undefined when messages may have been missed. */
  async next(end, signal) {
    for (;;) {
      signal?.throwIfAborted();
      if (this.error) throw this.error;
      if (this.link.closed) this.link.check();
      if (this.live.length > 0) {
        this.#bytes -= bytesOf(this.live[0]);
        return this.live.shift();
      }
      if (this.dropped || (this.epoch !== this.link.epoch && this.link.up)) {
        this.dropped = false;
        return undefined;
      }
      if (Date.now() >= end) return null;
      await this.#waker.sleep(end - Date.now(), signal);
    }
  }

  /** Reports whether the connection was lost since the last call. */
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

/**
 * Converts a message of the log that the server republished; undefined for other messages. before is the stream sequence
 * of the message before it on its subject, 0 for the first one.
 */
export function republished(m) {
  const header = (key) => added(m.headers, `Nats-${key}`);
  if (header("Stream") !== "AGENT_EVT" || header("Last-Sequence") === "") return undefined;
  const seq = Number(header("Sequence"));
  return seq > 0 ? { subject: header("Subject"), seq, before: Number(header("Last-Sequence")), headers: m.headers, data: m.data } : undefined;
}

/**
 * Returns the end of a session's log: the stream sequence of its last message and the sequence of its last event,
 * both 0 for an empty log. If a foreign message is stored after it, the whole log is read.
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
  #open = new Map(); // messages and tool calls in progress, by the sequence of their start event: {n, time, truncated}
  #part = 0; // stream sequence of the message that at.seq is from
  #message = 0; // key in #open of the message in progress
  #deltas = 0; // sequence of the last message read from the stream of updates
  #caughtUp = 0;

  /** from is the sequence of the first event to yield, 0 for from now on; at is a position in the log before it. */
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
      await tap.ready(signal); // before reading, so that nothing is missed in between
      for (;;) {
        yield* this.#catchUp();
        if (this.fromNow) {
          this.fromNow = false;
          this.from = this.at.seq + 1;
          yield* this.#catchUp(); // reads the updates of messages in progress
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
      if (this.updates && this.#reached() && this.#open.size > 0) yield* this.#readUpdates();
    };
    yield* this.link.retryRead(read.bind(this), this.signal);
    this.#caughtUp = Date.now();
  }

  /** Reports whether the log was processed up to from. Before, what is in progress may have ended for the caller. */
  #reached() {
    return this.at.seq + 1 >= this.from;
  }

  async *#readLog() {
    const { session, signal } = this;
    const after = this.at.stream;
    for await (const m of this.link.stored("AGENT_EVT", this.subjects.event(session), { after, signal })) {
      const events = eventsOf(session, m);
      if (!events) {
        this.at.stream = m.seq; // a foreign message on the log's subject
        continue;
      }
      if (!this.#continues(m, events)) {
        throw new DamagedError(`events ${events[0].seq} to ${events.at(-1).seq} of session ${session} are stored after event ${this.at.seq}`);
      }
      yield* this.#commit(m, events);
    }
  }

  /** Yields the stored updates of messages and tool calls in progress. */
  async *#readUpdates() {
    const { session, signal } = this;
    try {
      const subject = this.subjects.live(session, "update");
      for await (const m of this.link.stored("AGENT_UPD", subject, { after: this.#deltas, signal })) {
        const u = updateOf(session, m);
        const s = u && this.#open.get(u.event);
        if (s) {
          if (classify(s, u) === "gap") s.truncated = true; // the stream no longer has the update in between
          yield* this.#update(s, u);
        }
        this.#deltas = m.seq;
      }
    } catch (err) {
      if (err.code !== NO_STREAM) throw err; // the stream is in memory: after a server restart it does not exist until a runner creates it
    }
  }

  /** Yields what arrives live. It returns when something may have been missed and the log must be read. */
  async *#listen(tap) {
    let gone; // since when the log has no events
    let interval = FIRST_CHECK;
    let check = Date.now() + interval;
    for (;;) {
      const m = await tap.next(check, this.signal);
      if (m === undefined) {
        if (tap.lost()) this.#deltas = 0; // the stream is in memory: after a server restart its sequences start at 1 again
        return;
      }
      if (m === null) {
        try {
          const end = await head(this.link, this.subjects, this.session);
          if (end.stream > this.at.stream) return;
          if (end.seq > 0 || this.at.seq === 0) gone = undefined;
          else if (Date.now() - (gone ??= Date.now()) >= LAST_CHECK) { // not at one check: a replica that is behind may answer
            throw new DeletedError(`session ${this.session} was deleted after event ${this.at.seq}, with its log`);
          }
        } catch (err) {
          if (!isTransient(err)) throw err;
        }
        interval = Math.min(2 * interval, LAST_CHECK);
        check = Date.now() + interval;
        continue;
      }
      if (m.subject === this.subjects.live(this.session, "update")) {
        const u = updateOf(this.session, m);
        if (!u || !this.#reached()) continue;
        const s = this.#open.get(u.event);
        const fit = s && classify(s, u);
        if (fit === "gap" || (!s && u.event > this.at.seq)) {
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
        return; // a gap or a foreign message: read the log
      }
      if (rec.before > this.at.stream || !this.#continues(rec, events)) return;
      if (rec.subject !== this.subjects.event(this.session)) return;
      if (events.some((e) => e.dataref !== undefined)) return; // fetched when the log is read, which retries
      const reached = this.#reached();
      yield* this.#commit(rec, events);
      if (reached !== this.#reached()) return; // reads the updates so far of what is in progress at from
    }
  }

  /**
   * Reports whether a message of the log continues what was yielded. A message with events that were yielded is read
   * again if it was interrupted; any other is of another log: the session was deleted and has begun again.
   */
  #continues(m, events) {
    return m.seq === this.#part || events[0].seq === this.at.seq + 1;
  }

  /** Yields the events of a commit, except those already yielded and those before from. */
  async *#commit(m, events) {
    for (const e of events) {
      if (e.seq <= this.at.seq) continue;
      if (e.seq >= this.from && e.dataref !== undefined) e.data = parse(await this.link.blob(e.dataref, this.signal));
      this.#track(e);
      this.at.seq = e.seq;
      this.#part = m.seq;
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
        this.#open.delete(Number(String(e.data?.call).slice(1)));
        break;
      case "agent_end":
        this.#open.clear();
    }
  }

  *#update(s, u) {
    if (classify(s, u) !== "next") return;
    if (s.message && (s.size += sizeOf(u)) > MAX_STREAMED) {
      s.truncated = true; // message_end contains the whole message
      return;
    }
    s.n = u.n;
    s.time = u.time;
    yield { update: u };
  }
}

/** Returns what an update counts towards MAX_STREAMED. */
function sizeOf(u) {
  let size = UPDATE_COST;
  for (const e of u.data.assistantMessageEvents) {
    size += UPDATE_COST + (e.delta ?? e.content ?? "").length + (e.id ?? "").length + (e.toolName ?? "").length;
  }
  return size;
}

/**
 * Compares an update with the last one yielded. Updates of a message are increments, so none may be missing. An
 * update of a tool call replaces the one before, and their numbers start at 1 again when the call is executed again:
 * their times tell the executions apart.
 */
function classify(s, u) {
  const tool = u.type === "tool_execution_update";
  if (tool === Boolean(s.message)) return "stale"; // a tool's update for a message, or the reverse
  if (tool) {
    const later = Date.parse(u.time) - (Date.parse(s.time) || 0);
    return later > 0 || (later === 0 && u.n > s.n) ? "next" : "stale";
  }
  if (s.truncated || u.n <= s.n) return "stale";
  return u.n === s.n + 1 ? "next" : "gap";
}
