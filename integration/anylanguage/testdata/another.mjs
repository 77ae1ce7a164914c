// Prints the events that the client yields of a session that is deleted and begins again while it is followed, and of
// one that goes on.
import { Follower } from "../../../bus/client/js/follow.js";
import { Link, TransientError } from "../../../bus/client/js/stored.js";

const faster = 50; // so many times: a log is checked every five seconds
const { setTimeout: timeout } = globalThis, { now } = Date, begun = now();
globalThis.setTimeout = (f, ms) => timeout(f, ms / faster);
Date.now = () => begun + faster * (now() - begun);

const signal = AbortSignal.timeout(60_000); // what does not end is an error
const encoded = (v) => new TextEncoder().encode(JSON.stringify(v));
const subjects = { event: (s) => `agent.evt.${s}`, live: (s, what) => `agent.live.${s}.${what}` };
const event = (seq, more) => ({ specversion: "1.0", id: `s1/${seq}`, source: "/x", type: "dev.loopbus.queue_update.v1",
  time: "2026-01-01T00:00:00Z", ...more });

/** A server with the log of session s1, to which commits are appended. */
class Server extends Link {
  log = [];
  seq = 0;
  fails = 0; // how often the payload cannot be fetched

  constructor() {
    super({ isClosed: () => false, async *status() { await new Promise(() => {}); }, flush: async () => {} }, { api: "$JS.API.", requestTimeout: 1000 });
    this.nc.subscribe = (_, { callback }) => {
      this.live = (m) => callback(null, m);
      return { unsubscribe() {} };
    };
  }

  async *stored(_, subject, { after = 0 } = {}) {
    for (const m of [...this.log]) if (m.seq > after) yield m;
  }

  behind = 0; // how often a replica answers that does not have the log

  async last() {
    if (this.behind-- > 0) return undefined;
    this.checked?.();
    return this.log.at(-1);
  }

  async blob() {
    if (this.fails-- > 0) throw new TransientError("the payload is not there yet");
    return "{}";
  }

  /** Appends a commit of the events first to last and returns its message. The last event may have a payload. */
  append(first, last, { payload = false, republish = true } = {}) {
    const added = { "Loopbus-Commit": `v2 ${first}-${last}`, "Nats-Stream": "AGENT_EVT", "Nats-Subject": "agent.evt.s1",
      "Nats-Sequence": `${++this.seq}`, "Nats-Last-Sequence": `${this.log.at(-1)?.seq ?? 0}` };
    const batch = Array.from({ length: last - first + 1 }, (_, i) => event(first + i, payload && first + i === last
      ? { dataref: "nats://agent_blobs/x" } : { data: {} }));
    const m = { subject: "agent.live.s1.event", seq: this.seq, data: encoded(batch),
      headers: { get: (key) => added[key] ?? "", values: (key) => (key in added ? [added[key]] : []) } };
    this.log.push(m);
    if (republish) this.live?.(m);
    return m;
  }

  /** Deletes the log. */
  delete() {
    this.log = [];
  }
}

/** Follows up to event end. steps are called after the event with that sequence. */
async function follow(what, { begin, end, steps = {}, of = (f) => f.run(), ...options }) {
  const server = new Server();
  begin?.(server);
  const seen = [];
  try {
    for await (const { event: e } of of(new Follower(server, subjects, "s1", { signal, ...options }))) {
      seen.push(e.seq);
      steps[e.seq]?.(server);
      if (e.seq === end) break;
    }
  } catch (err) {
    seen.push(`${err.name}: ${err.message}`);
  }
  console.log(`${what}: ${seen.join(", ")}`);
}

const one = (s) => s.append(1, 1);
const another = (s) => { s.delete(); s.append(1, 3); };

await follow("live", { begin: one, end: 3, steps: { 1: another } });
await follow("after a commit of three", { begin: (s) => s.append(1, 3), end: 4, steps: { 3: another } });
await follow("stored", { begin: (s) => { one(s); another(s); }, end: 3, of: (f) => f.stored(), from: 2, at: { stream: 1, seq: 1 } });
await follow("its beginning was missed", { begin: one, end: 3, steps: { 1: (s) => { s.delete(); s.append(1, 1, { republish: false }); s.append(2, 3); } } });
const partly = (s) => { s.append(1, 2, { payload: true }); s.fails = 2; };
await follow("interrupted", { begin: partly, end: 2, steps: { 1: another } });
await follow("read again", { begin: partly, end: 4, steps: { 2: (s) => s.append(3, 4) } });
await follow("twice", { begin: (s) => s.append(1, 3), end: 7, from: 2,
  steps: { 2: (s) => s.live(s.log[0]), 3: (s) => { const m = s.append(4, 5); s.live(m); s.append(6, 7); s.live(m); } } });
await follow("gone", { begin: (s) => s.append(1, 3), end: 4, steps: { 3: (s) => s.delete() } });
const late = (s) => { // missing at one check, then there at others
  s.behind = 1;
  let n = 0;
  s.checked = () => { if (++n === 6) s.append(4, 4); };
};
await follow("a replica is behind", { begin: (s) => s.append(1, 3), end: 4, steps: { 3: late } });
await follow("not begun", { begin: (s) => { let n = 0; s.checked = () => { if (++n === 8) one(s); }; }, end: 1 });
