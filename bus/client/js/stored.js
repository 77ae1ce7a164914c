// What the client needs of NATS: the state of the connection, requests that are asked again, and streams that are read
// with ordinary pull consumers, by the subjects of the JetStream API. It imports nothing: a connection of
// @nats-io/nats-core (wsconnect in browsers, connect of @nats-io/transport-node in Node.js) has all that it needs.

const FIRST_TIMEOUT = 1000; // ms of the first attempt of a request
const ATTEMPT_TIMEOUT = 5000; // ms of one request of a reader, who has no other limit
const MIN_PAUSE = 20;
const MAX_PAUSE = 1000;
const BATCH_MESSAGES = 256; // and no more than BATCH_BYTES
const BATCH_BYTES = 4 << 20;
const READER_IDLE = 30e9; // ns after which the server forgets the consumer of a reader that went away

const decoder = new TextDecoder();

/** The text of a message's payload. */
export const text = (m) => decoder.decode(m.data);

/** The value of a header that the server has added: the last, since what is stored may have one too. */
export const added = (headers, key) => headers?.values(key).at(-1) ?? "";

const ANSWER = new Set(["stream", "seq", "domain", "duplicate", "error", "val", "batch", "count"]);

/** Whether what is stored in a bucket is no value but what a server has answered there: an acknowledgement, a status, a
 * stored message. */
export function isAnswer(m) {
  if (["Status", "Nats-Stream", "Nats-Sequence"].some((name) => added(m.headers, name) !== "")) return true;
  if (m.data.length === 0) return added(m.headers, "KV-Operation") === "";
  try {
    const value = JSON.parse(text(m));
    if (String(value.type).startsWith("io.nats.")) return true;
    return "stream" in value && "seq" in value && Object.keys(value).every((name) => ANSWER.has(name));
  } catch {
    return false;
  }
}

/** Random letters and digits, in a token of a subject. */
export function random() {
  return Array.from(crypto.getRandomValues(new Uint8Array(20)), (b) => (b % 36).toString(36)).join("");
}

/** Something that goes away when a server, or the leader of a stream, is back. */
export class PassingError extends Error {
  name = "PassingError";
}

/** A session's log, or something that it refers to, is not what its writers wrote. */
export class DamagedError extends Error {
  name = "DamagedError";
}

const NO_RESPONDERS = "NoResponders"; // as NoRespondersError of @nats-io/nats-core names itself
const PASSING = new Set(["PassingError", "TimeoutError", NO_RESPONDERS, "NoRespondersError", "ConnectionError"]);
const PASSING_CODES = new Set([10008, 10014, 10039, 10158]); // without JetStream for a moment, without a consumer, a copy on its way

/** Whether nobody has listened where a request was sent to. */
export function unheard(err) {
  return err?.name === NO_RESPONDERS || err?.name === "NoRespondersError" || (err?.cause !== undefined && unheard(err.cause));
}

/** Whether an error goes away by itself. */
export function passing(err) {
  if (err?.name === "ClosedConnectionError") return false;
  if (err?.name === "QueryError") return err.code === "busy" || err.code === "unavailable";
  if (err?.name === "JetStreamError") return err.status === 503 || PASSING_CODES.has(err.code);
  return PASSING.has(err?.name) || (err?.cause !== undefined && passing(err.cause));
}

/** An error that the JetStream API answers. */
class JetStreamError extends Error {
  name = "JetStreamError";
  constructor({ code, err_code, description }) {
    super(`${description} (${err_code})`);
    this.status = code;
    this.code = err_code;
  }
}

/** Lets one asynchronous function sleep until it is woken, a time is over, or a signal is aborted. */
export class Waker {
  #wake;
  wake = () => this.#wake?.();
  async sleep(ms, signal) {
    if (signal?.aborted) return;
    let timer;
    await new Promise((resolve) => {
      this.#wake = resolve;
      timer = setTimeout(resolve, ms);
      signal?.addEventListener("abort", resolve);
    });
    clearTimeout(timer);
    signal?.removeEventListener("abort", this.#wake);
    this.#wake = undefined;
  }
}

export const sleep = (ms, signal) => new Waker().sleep(ms, signal);

/** A connection, and what happens to it. */
export class Link {
  up = true;
  closed = false;
  epoch = 0; // one more for every connection that was lost
  #listeners = new Set();

  constructor(nc, { api, requestTimeout }) {
    this.nc = nc;
    this.api = api;
    this.requestTimeout = requestTimeout;
    this.closed = nc.isClosed();
    this.#listen();
  }

  async #listen() {
    for await (const s of this.nc.status()) {
      if (s.type === "disconnect") {
        this.up = false;
        this.epoch++;
      } else if (s.type === "reconnect") {
        this.up = true;
      } else {
        continue;
      }
      this.#tell();
    }
    this.closed = true;
    this.up = false;
    this.#tell();
  }

  #tell() {
    for (const f of this.#listeners) f();
  }

  /** Calls f when the connection is lost, is back, or is closed. Returns what ends this. */
  onChange(f) {
    this.#listeners.add(f);
    return () => this.#listeners.delete(f);
  }

  /** Throws unless a request has a chance. */
  check() {
    if (this.closed) throw Object.assign(new Error("the connection is closed"), { name: "ClosedConnectionError" });
    if (!this.up) throw new PassingError("the connection is lost");
  }

  inbox() {
    return `${this.nc.options?.inboxPrefix ?? "_INBOX"}.${random()}`;
  }

  /** Calls f with the time for one attempt, until it succeeds, fails for good, or its time is over. */
  async persist(f, { signal, timeout = this.requestTimeout } = {}) {
    const end = Date.now() + timeout;
    let limit = FIRST_TIMEOUT;
    for (let pause = MIN_PAUSE; ; pause = Math.min(2 * pause, MAX_PAUSE)) {
      signal?.throwIfAborted();
      try {
        this.check();
        return await f(Math.max(1, Math.min(limit, end - Date.now())));
      } catch (err) {
        if (!passing(err)) throw err;
        await sleep(Math.min(pause, Math.max(0, end - Date.now())), signal);
        signal?.throwIfAborted();
        if (Date.now() >= end) throw new Error(`given up after ${timeout} ms: ${err.message}`, { cause: err });
      }
      limit *= 2;
    }
  }

  /** Reads until it succeeds or fails for good; read is an async generator that begins where it has got to. */
  async *untilRead(read, signal) {
    for (let pause = MIN_PAUSE; ; pause = Math.min(2 * pause, MAX_PAUSE)) {
      try {
        for await (const item of read()) {
          pause = MIN_PAUSE;
          yield item;
        }
        return;
      } catch (err) {
        signal?.throwIfAborted();
        if (!passing(err)) throw err;
      }
      await sleep(pause, signal);
      signal?.throwIfAborted();
    }
  }

  /** A request to the JetStream API. */
  async jetstream(subject, request, timeout = ATTEMPT_TIMEOUT) {
    this.check();
    const answer = (await this.nc.request(this.api + subject, JSON.stringify(request), { timeout })).json();
    if (answer.error) throw new JetStreamError(answer.error);
    return answer;
  }

  /** The last message of a subject in a stream, undefined if there is none. */
  async last(stream, subject, timeout = ATTEMPT_TIMEOUT) {
    this.check();
    const m = await this.nc.request(`${this.api}DIRECT.GET.${stream}.${subject}`, "", { timeout });
    if (added(m.headers, "Nats-Stream") !== "") {
      return { subject, seq: Number(added(m.headers, "Nats-Sequence")), headers: m.headers, data: m.data };
    }
    switch (m.headers?.code) {
      case 404:
        return undefined;
      case 503:
        throw new PassingError("no server answers for the stream");
    }
    throw new Error(`direct get of ${subject}: ${m.headers?.code} ${m.headers?.description}`);
  }

  /**
   * Yields the messages of a stream on a subject with a sequence above after, or the last of each subject, in order, as
   * far as there are any now. It asks for a batch at a time, so that it holds no more however slow its reader is.
   */
  async *stored(stream, subject, { after = 0, last = false, signal } = {}) {
    const epoch = this.epoch;
    const name = `js-${random()}`;
    const config = {
      name, filter_subject: subject, ack_policy: "none", mem_storage: true, num_replicas: 1, replay_policy: "instant",
      inactive_threshold: READER_IDLE, max_deliver: -1,
      ...(last ? { deliver_policy: "last_per_subject" }
        : after > 0 ? { deliver_policy: "by_start_sequence", opt_start_seq: after + 1 } : { deliver_policy: "all" }),
    };
    const made = await this.jetstream(`CONSUMER.CREATE.${stream}.${name}.${subject}`, { stream_name: stream, config });
    const waker = new Waker();
    const queue = [];
    const inbox = this.inbox();
    const sub = this.nc.subscribe(inbox, { callback: (err, m) => queue.push(err ?? m) && waker.wake() });
    const ended = this.onChange(waker.wake);
    try {
      let left = made.num_pending;
      let delivered = 0;
      while (left > 0) {
        const batch = Math.min(left, BATCH_MESSAGES);
        const ask = { batch, expires: ATTEMPT_TIMEOUT * 1e6, max_bytes: BATCH_BYTES };
        this.nc.publish(`${this.api}CONSUMER.MSG.NEXT.${stream}.${name}`, JSON.stringify(ask), { reply: inbox });
        const before = delivered;
        const end = Date.now() + ATTEMPT_TIMEOUT + 1000;
        while (delivered < before + batch) {
          if (queue.length === 0) {
            await waker.sleep(end - Date.now(), signal);
            signal?.throwIfAborted();
            this.check();
            if (this.epoch !== epoch || Date.now() >= end) throw new PassingError("the answer is incomplete");
            continue;
          }
          const m = queue.shift();
          if (m instanceof Error) throw m;
          if (m.headers?.code >= 400 && m.data.length === 0) break; // the batch has no more
          const place = delivery(m.reply);
          if (!place) continue;
          if (place.consumer !== delivered + 1) throw new PassingError("a message is missing from the answer");
          delivered = place.consumer;
          left = place.pending;
          yield { subject: m.subject, seq: place.stream, headers: m.headers, data: m.data };
        }
        if (delivered === before) throw new PassingError(`no message of ${left} came`);
      }
    } finally {
      ended();
      if (!this.closed) {
        sub.unsubscribe();
        this.nc.publish(`${this.api}CONSUMER.DELETE.${stream}.${name}`); // if it gets lost, the server forgets it later
      }
    }
  }

  /** The data of an event that is kept in the object store, held against its digest where the platform can. */
  async blob(ref, signal) {
    const name = ref.startsWith("nats://agent_blobs/") ? ref.slice("nats://agent_blobs/".length) : "";
    const digest = name.slice(name.lastIndexOf("/") + 1);
    if (!/^[\x21-\x7e]{1,300}$/.test(name) || !/^[0-9a-f]{64}$/.test(digest)) throw new DamagedError(`the data reference ${ref.slice(0, 100)} is none`);
    const key = btoa(name).replaceAll("+", "-").replaceAll("/", "_"); // with its padding
    const meta = await this.last("OBJ_agent_blobs", `$O.agent_blobs.M.${key}`);
    const info = meta && JSON.parse(text(meta));
    if (!info || info.deleted) throw new DamagedError(`there is no data ${ref}`);
    const data = new Uint8Array(info.size);
    let at = 0;
    for await (const m of this.stored("OBJ_agent_blobs", `$O.agent_blobs.C.${info.nuid}`, { signal })) {
      if (at + m.data.length > data.length) throw new DamagedError(`the data of ${ref} is longer than it should be`);
      data.set(m.data, at);
      at += m.data.length;
    }
    if (at !== data.length) throw new PassingError(`the data of ${ref} came in part`);
    if (globalThis.crypto?.subtle) { // which pages have that come by https, or from this machine
      const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
      if (Array.from(sum, (b) => b.toString(16).padStart(2, "0")).join("") !== digest) {
        throw new DamagedError(`the data of ${ref} has another digest`);
      }
    }
    return decoder.decode(data);
  }
}

/** What the subject of an acknowledgement says: $JS.ACK.[domain.account.]stream.consumer.n.stream.consumer.time.pending */
function delivery(reply) {
  const t = (reply ?? "").split(".");
  if (t[0] !== "$JS" || t[1] !== "ACK" || t.length < 9) return undefined;
  const from = t.length >= 11 ? 7 : 5;
  return { stream: Number(t[from]), consumer: Number(t[from + 1]), pending: Number(t[from + 3]) };
}
