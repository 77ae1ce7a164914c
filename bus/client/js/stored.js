// The client's use of NATS: connection state, retried requests, and reading streams with ordinary pull consumers. It
// imports nothing: a connection of @nats-io/nats-core is enough.

const FIRST_TIMEOUT = 1000; // limit of a request's first attempt, in ms
const ATTEMPT_TIMEOUT = 5000; // limit of one request of a reader, which has no other deadline, in ms
const MIN_PAUSE = 20;
const MAX_PAUSE = 1000;
const BATCH_MESSAGES = 256; // messages per request, but at most BATCH_BYTES
const BATCH_BYTES = 4 << 20;
const READER_IDLE = 30e9; // ns after which the server deletes the consumer of a reader that disappeared

const decoder = new TextDecoder();

/** The text of a message's payload. */
export const text = (m) => decoder.decode(m.data);

/** The most bytes of received messages that one reader keeps. */
export const MOST_BYTES = 16 << 20;

// The most bytes of a message besides its payload: subjects and headers. An event of a log of the first version, with ids
// of the greatest length, has 4.3 KiB.
const MOST_BESIDES = 5 << 10;

/** The size of a message, with its subjects and headers where the connection tells. */
export const bytesOf = (m) => m.size?.() ?? m.data.length;

/**
 * Reports whether the headers of a message may be looked at. nats-core decodes all of them at the first look, in a time
 * that grows with the square of their number: 0.2 s for 49 KB, minutes for 1 MB. Many of others may choose them.
 */
export const isReadable = (m) => bytesOf(m) - m.data.length <= MOST_BESIDES;

const headersOf = (m) => (isReadable(m) ? m.headers : undefined);

/** A message of a stream. One whose headers are not readable has none, and counts as written by no one of loopbus. */
const kept = (m, subject, seq) => ({ subject, seq, headers: headersOf(m), data: m.data, unreadable: !isReadable(m) });

/** The value of a header that the server added: the last one, since the message may have the same header. */
export const added = (headers, key) => headers?.values(key).at(-1) ?? "";

const MAX_ACK = 4096; // bytes; the longest name of a stream has 255 characters, and an error one sentence
const ANSWER = new Set(["stream", "seq", "domain", "duplicate", "error", "val", "batch", "count"]);

/**
 * Reports whether a message stored in a bucket is not a value but the answer of a server to a forged request: an
 * acknowledgement, a status, or a stored message.
 */
export function isAnswer(m) {
  if (m.unreadable || ["Status", "Nats-Stream", "Nats-Sequence"].some((name) => added(m.headers, name) !== "")) return true;
  if (m.data.length === 0) return added(m.headers, "KV-Operation") === "";
  try {
    const value = JSON.parse(text(m));
    if (String(value.type).startsWith("io.nats.")) return true;
    return "stream" in value && "seq" in value && Object.keys(value).every((name) => ANSWER.has(name));
  } catch {
    return false;
  }
}

/** Reports whether a message is a server's acknowledgement of a message that a stream stored or refused. */
export function isAck(m) {
  if (m.data.length > MAX_ACK) return false;
  try {
    const { stream, seq } = JSON.parse(text(m));
    return typeof stream === "string" && stream !== "" && typeof seq === "number";
  } catch {
    return false;
  }
}

/** Returns random letters and digits, for use in a token of a subject. */
export function random() {
  return Array.from(crypto.getRandomValues(new Uint8Array(20)), (b) => (b % 36).toString(36)).join("");
}

/** An error that is likely to disappear when a server, or the leader of a stream, is back. */
export class TransientError extends Error {
  name = "TransientError";
}

/** The log of a session, or a payload that it refers to, is not what its writer stored. */
export class DamagedError extends Error {
  name = "DamagedError";
}

/** A session was deleted while it was followed. */
export class DeletedError extends Error {
  name = "DeletedError";
}

const NO_RESPONDERS = "NoResponders"; // the name that NoRespondersError of @nats-io/nats-core has
const TRANSIENT = new Set(["TransientError", "TimeoutError", NO_RESPONDERS, "NoRespondersError", "ConnectionError"]);
const FLOODED = 10167; // too many messages of the stream wait to be stored; the server accepts a share of all attempts
export const NO_STREAM = 10059;
const TRANSIENT_CODES = new Set([10008, 10014, 10039, 10158, FLOODED]); // JetStream is starting, the consumer does not exist, a duplicate is being stored

/** Reports whether no one was subscribed to the subject of a request. */
export function isNoResponders(err) {
  return err?.name === NO_RESPONDERS || err?.name === "NoRespondersError" || (err?.cause !== undefined && isNoResponders(err.cause));
}

/** Reports whether an error is likely to disappear by itself. */
export function isTransient(err) {
  if (err?.name === "ClosedConnectionError") return false;
  if (err?.name === "QueryError") return err.code === "busy" || err.code === "unavailable";
  if (err?.name === "RequestError" && err.message === "connection disconnected") return true; // of a flush
  if (err?.name === "JetStreamError") return err.status === 503 || TRANSIENT_CODES.has(err.code);
  return TRANSIENT.has(err?.name) || (err?.cause !== undefined && isTransient(err.cause));
}

/** An error answered by the JetStream API. */
class JetStreamError extends Error {
  name = "JetStreamError";
  constructor({ code, err_code, description }) {
    super(`${description} (${err_code})`);
    this.status = code;
    this.code = err_code;
  }
}

/** Lets one asynchronous function sleep until it is woken, a time has passed, or a signal is aborted. */
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

const MOST_DENIED = 100;

/** A connection and its state. */
export class Link {
  up = true;
  closed = false;
  epoch = 0; // incremented whenever the connection is lost
  denied = new Map(); // errors by subject, of publishing what the user must not publish
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
        this.denied.clear();
      } else {
        const { operation, subject } = s.error ?? {};
        if (operation === "publish" && this.denied.size < MOST_DENIED) this.denied.set(subject, s.error);
        continue;
      }
      this.#notify();
    }
    this.closed = true;
    this.up = false;
    this.#notify();
  }

  #notify() {
    for (const f of this.#listeners) f();
  }

  /** Calls f when the connection is lost, re-established, or closed. Returns a function that stops this. */
  onChange(f) {
    this.#listeners.add(f);
    return () => this.#listeners.delete(f);
  }

  /** Throws if the connection is closed or lost. */
  check() {
    if (this.closed) throw Object.assign(new Error("the connection is closed"), { name: "ClosedConnectionError" });
    if (!this.up) throw new TransientError("the connection is lost");
  }

  inbox() {
    return `${this.nc.options?.inboxPrefix ?? "_INBOX"}.${random()}`;
  }

  /** Reports whether an error is likely to disappear by itself. A cluster that has just started may not know its streams yet. */
  isTransient(err) {
    return isTransient(err) || (err?.code === NO_STREAM && Boolean(this.nc.info?.cluster));
  }

  /** Calls f with the time limit of one attempt, until it succeeds, fails for good, or the time is used up. */
  async retry(f, { signal, timeout = this.requestTimeout } = {}) {
    const end = Date.now() + timeout;
    let limit = FIRST_TIMEOUT;
    let last;
    for (let pause = MIN_PAUSE; ; pause = Math.min(2 * pause, MAX_PAUSE)) {
      signal?.throwIfAborted();
      try {
        this.check();
        return await f(Math.max(1, Math.min(limit, end - Date.now())));
      } catch (err) {
        if (!this.isTransient(err)) throw err;
        if (last === undefined || err.name !== "TimeoutError") last = err; // a timeout tells less than the error before it
        if (err.code === FLOODED) pause = MIN_PAUSE;
        await sleep(Math.min(pause, Math.max(0, end - Date.now())), signal);
        signal?.throwIfAborted();
        if (Date.now() >= end) throw new Error(`gave up after ${timeout} ms: ${last.message}`, { cause: last });
      }
      limit *= 2;
    }
  }

  /** Reads until it succeeds or fails for good. read is an async generator that resumes where it stopped. */
  async *retryRead(read, signal) {
    let refused; // since when the server reports that it has no such stream
    for (let pause = MIN_PAUSE; ; pause = Math.min(2 * pause, MAX_PAUSE)) {
      try {
        for await (const item of read()) {
          pause = MIN_PAUSE;
          yield item;
        }
        return;
      } catch (err) {
        signal?.throwIfAborted();
        if (!this.isTransient(err)) throw err;
        if (err.code !== NO_STREAM) refused = undefined;
        else if (Date.now() - (refused ??= Date.now()) > this.requestTimeout) throw err;
      }
      await sleep(pause, signal);
      signal?.throwIfAborted();
    }
  }

  /** Sends a request and returns the first answer that is not the acknowledgement of a stream. */
  async answer(subject, payload, timeout) {
    let sub, timer;
    try {
      return await new Promise((resolve, reject) => {
        const inbox = this.inbox();
        const late = () => reject(new TransientError(`${subject}: only a stream answers`));
        sub = this.nc.subscribe(inbox, { callback: (err, m) => (err ? reject(err) : isAck(m) || resolve(m)) });
        timer = setTimeout(late, timeout);
        this.nc.publish(subject, payload, { reply: inbox });
      });
    } finally {
      clearTimeout(timer);
      sub?.unsubscribe();
    }
  }

  /** Sends a request to the JetStream API. */
  async jetstream(subject, request, timeout = ATTEMPT_TIMEOUT) {
    this.check();
    const answer = (await this.nc.request(this.api + subject, JSON.stringify(request), { timeout })).json();
    if (answer.error) throw new JetStreamError(answer.error);
    return answer;
  }

  /** Returns the last message of a subject in a stream, undefined if there is none. An unreadable one has no sequence. */
  async last(stream, subject, timeout = ATTEMPT_TIMEOUT) {
    this.check();
    const m = await this.nc.request(`${this.api}DIRECT.GET.${stream}.${subject}`, "", { timeout });
    const headers = headersOf(m);
    if (!isReadable(m) || added(headers, "Nats-Stream") !== "") return kept(m, subject, Number(added(headers, "Nats-Sequence")));
    switch (headers?.code) {
      case 404:
        return undefined;
      case 503:
        throw new TransientError("the stream has no leader");
    }
    throw new Error(`direct get of ${subject}: ${headers?.code} ${headers?.description}`);
  }

  /**
   * Yields the messages that a stream has now on a subject, in order: those behind the sequence after, or the last one
   * of each subject. It requests one batch at a time, so memory stays bounded. With headersOnly, the header
   * Nats-Msg-Size tells the size of each payload.
   */
  async *stored(stream, subject, { after = 0, last = false, headersOnly = false, signal } = {}) {
    const epoch = this.epoch;
    const name = `js-${random()}`;
    const config = {
      name, filter_subject: subject, ack_policy: "none", mem_storage: true, num_replicas: 1, replay_policy: "instant",
      inactive_threshold: READER_IDLE, max_deliver: -1, headers_only: headersOnly,
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
        let end = Date.now() + ATTEMPT_TIMEOUT + 1000; // without a message: over a slow line a batch takes longer
        while (delivered < before + batch) {
          if (queue.length === 0) {
            await waker.sleep(end - Date.now(), signal);
            signal?.throwIfAborted();
            this.check();
            if (this.epoch !== epoch || Date.now() >= end) throw new TransientError("the batch arrived in part");
            continue;
          }
          const m = queue.shift();
          if (m instanceof Error) throw m;
          end = Date.now() + ATTEMPT_TIMEOUT + 1000;
          const place = delivery(m.reply);
          if (!place && headersOf(m)?.code >= 400) break; // a status: the end of the batch
          if (!place) continue;
          if (place.consumer !== delivered + 1) throw new TransientError("a message of the batch is missing");
          delivered = place.consumer;
          left = place.pending;
          yield kept(m, m.subject, place.stream);
        }
        if (delivered === before) throw new TransientError(`received none of ${left} messages`);
      }
    } finally {
      ended();
      if (!this.closed) {
        sub.unsubscribe();
        this.nc.publish(`${this.api}CONSUMER.DELETE.${stream}.${name}`); // if this is lost, the server deletes it after READER_IDLE
      }
    }
  }

  /** Returns the payload of an event from the object store, verified against its digest if the platform can. */
  async blob(ref, signal) {
    const name = ref.startsWith("nats://agent_blobs/") ? ref.slice("nats://agent_blobs/".length) : "";
    const digest = name.slice(name.lastIndexOf("/") + 1);
    if (!/^[\x21-\x7e]{1,300}$/.test(name) || !/^[0-9a-f]{64}$/.test(digest)) throw new DamagedError(`the data reference ${ref.slice(0, 100)} is malformed`);
    const key = btoa(name).replaceAll("+", "-").replaceAll("/", "_"); // with its padding
    const entry = `$O.agent_blobs.M.${key}`;
    const meta = await this.last("OBJ_agent_blobs", entry);
    if (!meta) { // the replica may be behind: the leader answers this
      const { state } = await this.jetstream("STREAM.INFO.OBJ_agent_blobs", { subjects_filter: entry });
      if (state.subjects?.[entry]) throw new TransientError(`a replica does not have the payload ${ref} yet`);
    }
    const info = meta && JSON.parse(text(meta));
    if (!info || info.deleted) throw new DamagedError(`the payload ${ref} does not exist`);
    const data = new Uint8Array(info.size);
    let at = 0;
    for await (const m of this.stored("OBJ_agent_blobs", `$O.agent_blobs.C.${info.nuid}`, { signal })) {
      if (at + m.data.length > data.length) throw new DamagedError(`the payload ${ref} is longer than its metadata says`);
      data.set(m.data, at);
      at += m.data.length;
    }
    if (at !== data.length) throw new TransientError(`the payload ${ref} arrived in part`);
    if (globalThis.crypto?.subtle) { // available to pages loaded over https or from localhost
      const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
      if (Array.from(sum, (b) => b.toString(16).padStart(2, "0")).join("") !== digest) {
        throw new DamagedError(`the payload ${ref} does not match its digest`);
      }
    }
    return decoder.decode(data);
  }
}

/** Parses the subject of an acknowledgement: $JS.ACK.[domain.account.]stream.consumer.n.stream.consumer.time.pending */
function delivery(reply) {
  const t = (reply ?? "").split(".");
  if (t[0] !== "$JS" || t[1] !== "ACK" || t.length < 9) return undefined;
  const from = t.length >= 11 ? 7 : 5;
  return { stream: Number(t[from]), consumer: Number(t[from + 1]), pending: Number(t[from + 3]) };
}
