// Follows the approvals of all sessions: reads the runners' index, then the logs as they are republished. If messages of
// the logs were missed, it reads the index again, and asks the session itself before it yields that a call no longer waits.

import { eventsOf } from "./log.js";
import { parse } from "./numbers.js";
import { isAsked } from "./shapes.js";
import { isTransient } from "./stored.js";
import { republished, Tap } from "./follow.js";

const ASK_AGAIN = 10_000; // ms between two reads of the index; ASK_PARTIAL while the index is incomplete
const ASK_PARTIAL = 1_000;
const KNOWN = 10_000; // calls remembered after they stopped waiting, so that an index that lags behind cannot bring one back

/**
 * Identifies a request. The digest tells it from one of a session that was deleted and started again with the same
 * id.
 */
const keyOf = (a) => `${a.session}/${a.seq}/${a.digest ?? ""}`;

const TYPES = new Set(["approval_requested", "approval_resolved", "tool_execution_end", "agent_end"]);

export class Approvals {
  #waiting = new Map(); // by keyOf
  #over = new Set();
  #at = 0; // stream sequence of the last message received

  constructor(client, { signal }) {
    this.client = client;
    this.signal = signal;
  }

  async *run() {
    const { link, subjects } = this.client;
    const { signal } = this;
    const tap = new Tap(link, subjects.live("*", "event"));
    try {
      await tap.ready(signal);
      for (;;) {
        let partial = false;
        const read = async function* () {
          partial = yield* this.#readIndex();
        };
        yield* link.retryRead(read.bind(this), signal);
        yield* this.#listen(tap, Date.now() + (partial ? ASK_PARTIAL : ASK_AGAIN));
        if (tap.lost()) this.#at = 0;
      }
    } finally {
      tap.close();
    }
  }

  /** Yields the differences since the last read. Returns whether the index is incomplete. */
  async *#readIndex() {
    const o = { signal: this.signal };
    const listed = new Set();
    let partial = false;
    for (let cursor; ; ) {
      const page = await this.client.query(["approvals"], { limit: 1000, cursor }, o);
      partial ||= page.partial === true;
      for (const a of page.approvals.filter(isAsked)) {
        const key = keyOf(a);
        listed.add(key);
        if (this.#waiting.has(key) || this.#over.has(key)) continue;
        if (a.args === undefined && a.argsSize > 0) {
          const asked = await this.#unlessUnreadable(() => this.client.session(a.session).event(a.seq, o));
          a.args = asked?.data?.digest === a.digest ? asked?.data?.args : undefined;
          a.unreadable = a.args === undefined;
        }
        yield* this.#wait(a);
      }
      if (!(cursor = page.next)) break;
    }
    const unsure = [...this.#waiting.values()].filter((a) => !listed.has(keyOf(a)));
    for (const session of new Set(unsure.map((a) => a.session))) {
      const still = await this.#ofSession(session, o);
      for (const a of unsure) if (a.session === session && !still.has(keyOf(a))) yield* this.#end(a);
    }
    return partial;
  }

  async #ofSession(session, o) {
    const still = new Set();
    for (let cursor; ; ) {
      const page = await this.client.query([session, "approvals"], { limit: 1000, cursor }, o);
      for (const a of page.approvals.filter(isAsked)) still.add(keyOf(a));
      if (!(cursor = page.next)) return still;
    }
  }

  /** Yields what arrives live, until the index should be read again. */
  async *#listen(tap, end) {
    for (;;) {
      const m = await tap.next(end, this.signal);
      if (!m) return;
      const rec = republished(m);
      if (!rec || rec.seq <= this.#at) continue;
      const missed = this.#at > 0 && rec.seq > this.#at + 1;
      this.#at = rec.seq;
      const session = rec.subject.split(".").at(-1);
      if (rec.subject !== this.client.subjects.event(session)) continue;
      let events;
      try {
        events = eventsOf(session, rec) ?? [];
      } catch {
        continue; // skip commits that cannot be decoded
      }
      for (const e of events) if (TYPES.has(e.type)) yield* this.#event(e);
      if (missed) return;
    }
  }

  async *#event(e) {
    const requested = e.type === "approval_requested";
    if (!requested && ![...this.#waiting.values()].some((a) => a.session === e.session)) return;
    const d = e.data ?? (await this.#unlessUnreadable(async () => parse(await this.client.link.blob(e.dataref, this.signal))));
    if (d === undefined) return; // its payload cannot be read: leave it to the index
    if (requested) {
      const { timeoutMs, ...asked } = d;
      const until = new Date(Date.parse(e.time) + timeoutMs);
      const a = { ...asked, session: e.session, seq: e.seq, requested: e.time, expires: timeoutMs > 0 && until > 0 ? until.toISOString() : undefined };
      if (this.#waiting.has(keyOf(a)) || !isAsked(a)) return;
      // Calls with a later sequence belong to a session that was deleted and started again.
      for (const old of [...this.#waiting.values()]) if (old.session === a.session && old.seq >= a.seq) yield* this.#end(old);
      yield* this.#wait(a);
      return;
    }
    const call = e.type === "agent_end" ? undefined : d.call;
    for (const a of [...this.#waiting.values()]) {
      if (a.session !== e.session || (call !== undefined && a.call !== call)) continue;
      yield* this.#end(a, e.type === "approval_resolved" ? d : undefined);
    }
  }

  /**
   * Returns what f returns, or undefined if the data of one session cannot be read: that must not end the list of the
   * others.
   */
  async #unlessUnreadable(f) {
    try {
      return await f();
    } catch (err) {
      if (this.signal?.aborted || isTransient(err) || err.name === "ClosedConnectionError") throw err;
      return undefined;
    }
  }

  *#wait(a) {
    const waiting = { ...a, waiting: true };
    this.#waiting.set(keyOf(a), waiting);
    yield waiting;
  }

  *#end(a, resolved) {
    const key = keyOf(a);
    this.#waiting.delete(key);
    this.#over.add(key);
    if (this.#over.size > KNOWN) this.#over.delete(this.#over.values().next().value);
    yield { ...a, waiting: false, ...(resolved && { resolved }) };
  }
}
