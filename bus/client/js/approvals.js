// Follows the approvals of all sessions: what the runners' index has, then the logs as they are republished. Where
// something of these was missed, the index is asked again, and the session itself before a call is said not to wait.

import { eventsOf } from "./log.js";
import { passing } from "./stored.js";
import { republished, Tap } from "./follow.js";

const ASK_AGAIN = 10_000; // ms between two readings of the index; less while it is partial
const ASK_PARTIAL = 1_000;
const KNOWN = 10_000; // calls remembered that do not wait any more, so that an index that is late cannot bring one back

const TYPES = new Set(["approval_requested", "approval_resolved", "tool_execution_end", "agent_end"]);

export class Approvals {
  #waiting = new Map(); // by "<session>/<seq>"
  #over = new Set();
  #at = 0; // last message of the stream that was heard

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
        yield* link.untilRead(read.bind(this), signal);
        yield* this.#listen(tap, Date.now() + (partial ? ASK_PARTIAL : ASK_AGAIN));
        if (tap.lost()) this.#at = 0;
      }
    } finally {
      tap.close();
    }
  }

  /** Yields what has changed since it was read last. Returns whether sessions may be missing. */
  async *#readIndex() {
    const o = { signal: this.signal };
    const listed = new Set();
    let partial = false;
    for (let cursor; ; ) {
      const page = await this.client.query(["approvals"], { limit: 1000, cursor }, o);
      partial ||= page.partial === true;
      for (const a of page.approvals) {
        const key = `${a.session}/${a.seq}`;
        listed.add(key);
        if (this.#waiting.has(key) || this.#over.has(key)) continue;
        if (a.args === undefined && a.argsSize > 0) {
          const asked = await this.#unlessUnreadable(() => this.client.session(a.session).event(a.seq, o));
          a.args = asked?.data?.args;
          a.unreadable = a.args === undefined;
        }
        yield* this.#wait(key, a);
      }
      if (!(cursor = page.next)) break;
    }
    const unsure = [...this.#waiting.values()].filter((a) => !listed.has(`${a.session}/${a.seq}`));
    for (const session of new Set(unsure.map((a) => a.session))) {
      const still = await this.#ofSession(session, o);
      for (const a of unsure) if (a.session === session && !still.has(a.seq)) yield* this.#end(a);
    }
    return partial;
  }

  async #ofSession(session, o) {
    const still = new Set();
    for (let cursor; ; ) {
      const page = await this.client.query([session, "approvals"], { limit: 1000, cursor }, o);
      for (const a of page.approvals) still.add(a.seq);
      if (!(cursor = page.next)) return still;
    }
  }

  /** Yields what comes live, until the index is to be asked again. */
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
        continue; // a log that cannot be read has none
      }
      for (const e of events) if (TYPES.has(e.type)) yield* this.#event(e);
      if (missed) return;
    }
  }

  async *#event(e) {
    if (e.type === "approval_requested") {
      const key = `${e.session}/${e.seq}`;
      if (this.#waiting.has(key)) return;
      const d = e.data ?? (await this.#unlessUnreadable(async () => JSON.parse(await this.client.link.blob(e.dataref, this.signal))));
      if (d === undefined) return; // the index knows what there is to know of it
      const expires = d.timeoutMs > 0 ? new Date(Date.parse(e.time) + d.timeoutMs).toISOString() : undefined;
      const { timeoutMs: _, ...asked } = d;
      yield* this.#wait(key, { session: e.session, seq: e.seq, ...asked, requested: e.time, expires });
      return;
    }
    const call = e.type === "agent_end" ? undefined : e.data?.call;
    for (const a of [...this.#waiting.values()]) {
      if (a.session !== e.session || (call !== undefined && a.call !== call)) continue;
      yield* this.#end(a, e.type === "approval_resolved" ? e.data : undefined);
    }
  }

  /** What f returns, undefined where one session's data cannot be read, which is not everybody's business. */
  async #unlessUnreadable(f) {
    try {
      return await f();
    } catch (err) {
      if (this.signal?.aborted || passing(err) || err.name === "ClosedConnectionError") throw err;
      return undefined;
    }
  }

  *#wait(key, a) {
    const waiting = { ...a, waiting: true };
    this.#waiting.set(key, waiting);
    yield waiting;
  }

  *#end(a, resolved) {
    const key = `${a.session}/${a.seq}`;
    this.#waiting.delete(key);
    this.#over.add(key);
    if (this.#over.size > KNOWN) this.#over.delete(this.#over.values().next().value);
    yield { ...a, waiting: false, ...(resolved && { resolved }) };
  }
}
