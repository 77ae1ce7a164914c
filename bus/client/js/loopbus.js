// The JavaScript client of loopbus, for Node.js and browsers: it prompts, steers and aborts sessions, follows what they
// do, and lists sessions, tools, models and approvals. It imports nothing but its own files; a connection of
// @nats-io/nats-core has all that it needs.
//
//   import { connect } from "@nats-io/transport-node"; // in browsers wsconnect of @nats-io/nats-core
//   const c = client(await connect({ servers, maxReconnectAttempts: -1, waitOnFirstConnect: true }));
//   const run = await c.session("s1").prompt("list the files");
//   for await (const { event, update } of run.items()) { … }   // to the end of the run, without a gap or a double
//   const { reason, text, usage, cost } = await run.wait();
//
// Every iterator and every method takes { signal }, an AbortSignal. An iterator that is left by break leaves nothing
// behind. docs/client.md says what following promises.

import { Approvals } from "./approvals.js";
import { Fleet } from "./fleet.js";
import { Follower, head } from "./follow.js";
import { attributes, isLarge, upload } from "./inputs.js";
import { Link, PassingError, random, unheard } from "./stored.js";
import { listTools } from "./tools.js";

export { DamagedError } from "./stored.js";

/** @typedef {import("./log.js").Event} Event @typedef {import("./log.js").Update} Update */
/** @typedef {{ event?: Event, update?: Update }} Item One of the two. */
/** @typedef {{ signal?: AbortSignal }} Stop */
/** @typedef {Stop & { timeout?: number }} Asked For how long it is asked again where nobody answers, in ms: else requestTimeout. */
/** @typedef {string | { text?: string, images?: { type: "image", mimeType: string, data: string }[], messages?: object[] }} Input */
/** @typedef {Stop & { id?: string, whenBusy?: string, channel?: string, channelOnly?: boolean, traceparent?: string }} SendOptions */

/** Why a command is refused, for programs: docs/protocol.md says when each is used. A later version may have more. */
export const REJECT_CODES = Object.freeze([
  "invalid", "unknown", "too_large", "not_plain", "cloud_event", "foreign", "busy", "no_run", "state", "not_found",
  "consumed", "failed", "aborted", "invalid_args", "no_tool", "no_model", "no_profile", "queue_full", "delivery",
  "stale", "permission", "internal", // reserved
]);

/** A session refused a command, which changed nothing. code is one of REJECT_CODES; reason is for people. */
export class RejectedError extends Error {
  name = "RejectedError";
  constructor(session, commandId, { kind, code, reason }) {
    super(`session ${session} rejected ${kind} ${commandId}: ${reason} (${code})`);
    Object.assign(this, { session, commandId, kind, code, reason });
  }
}

/** An input was withdrawn, or superseded by another prompt, before it had an effect; by is the command that did it. */
export class WithdrawnError extends Error {
  name = "WithdrawnError";
  constructor(session, commandId, { kind, by }, superseded) {
    super(`session ${session}: ${kind} ${commandId} was ${superseded ? "superseded" : "withdrawn"} by ${by}`);
    Object.assign(this, { session, commandId, kind, by, superseded });
  }
}

/** A query was refused: invalid, not_found, busy, unavailable, damaged or internal. */
export class QueryError extends Error {
  name = "QueryError";
  constructor(subject, { code, reason }) {
    super(`query ${subject}: ${code}: ${reason}`);
    Object.assign(this, { code, reason });
  }
}

const TOKEN = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * Makes a client of a connection, which stays the caller's and should reconnect for ever.
 * @param {import("@nats-io/nats-core").NatsConnection} nc
 * @param {{ prefix?: string, source?: string, requestTimeout?: number, apiPrefix?: string }} [options] the first token of
 *   all subjects; the CloudEvents source of commands; how long a request is tried, in ms; the prefix of JetStream's API
 */
export function client(nc, options) {
  return new Client(nc, options);
}

export class Client {
  constructor(nc, { prefix = "agent", source = "/loopbus/client.js", requestTimeout = 15_000, apiPrefix = "$JS.API" } = {}) {
    this.nc = nc;
    this.prefix = prefix;
    this.source = source;
    this.link = new Link(nc, { api: `${apiPrefix}.`, requestTimeout });
    this.subjects = {
      event: (session) => `${prefix}.evt.${session}`,
      live: (session, what) => `${prefix}.live.${session}.${what}`,
      command: (session, kind) => `${prefix}.cmd.${session}.${kind}`,
      query: (...tokens) => [prefix, "query", ...tokens].join("."),
    };
  }

  /** Whether the connection is there at the moment. */
  get connected() {
    return this.link.up && !this.link.closed;
  }

  /** Calls f when the connection is lost, is back, or is closed. Returns what ends this. */
  onConnection(f) {
    return this.link.onChange(() => f(this.connected));
  }

  /** A handle of a session, which need not exist yet. @param {string} id */
  session(id) {
    return new Session(this, id);
  }

  /** A page of the sessions there are, see schemas/jsonschema/queries/sessions_query. @param {Asked} [o] */
  sessions(query = {}, o) {
    return this.query(["sessions"], query, o);
  }

  /** The models that the runners' catalogue has, with prices, limits, and whether there is a key. @param {Asked} [o] */
  async models(o) {
    const models = [];
    for (let cursor; ; ) {
      const page = await this.query(["models"], { cursor }, o);
      models.push(...page.models);
      if (!(cursor = page.next)) return models;
    }
  }

  /** The tools that workers announce at this moment, each with its workers. @param {Asked} [o] */
  tools({ signal, timeout } = {}) {
    return this.link.persist(() => listTools(this.link, signal), { signal, timeout });
  }

  /**
   * Yields the approvals of all sessions that wait, then each that is requested, and each again when it does not wait
   * any more: {session, seq, call, toolCallId, toolName, args, reason, by, requested, expires, waiting, resolved}.
   * @param {Stop} [o]
   */
  approvals(o = {}) {
    return new Approvals(this, o).run();
  }

  /** What operators look at. */
  get fleet() {
    return new Fleet(this);
  }

  /** Asks one of the runners. @param {string[]} tokens @param {object} [request] @param {Asked} [o] */
  async query(tokens, request = {}, o) {
    const subject = this.subjects.query(...tokens);
    return this.link.persist(async (timeout) => {
      const m = await this.nc.request(subject, JSON.stringify(request), { timeout }).catch((err) => {
        throw unheard(err) ? new PassingError(`query ${subject}: no runner answers`, { cause: err }) : err;
      });
      if (m.headers?.get("Nats-Service-Error-Code")) {
        let refused = { code: "internal", reason: m.headers.get("Nats-Service-Error") };
        try {
          refused = m.json();
        } catch {
          // it is no query's answer, and the header says what it is
        }
        throw new QueryError(subject, refused);
      }
      return m.json();
    }, o);
  }
}

export class Session {
  /** @param {Client} client @param {string} id */
  constructor(client, id) {
    if (!TOKEN.test(id)) throw new TypeError(`${JSON.stringify(id)} is no id of a session`);
    this.client = client;
    this.id = id;
  }

  /** Sends a prompt. Its run is the one that it begins, waits for, or, by whenBusy, joins. @param {Input} input @param {SendOptions} [o] */
  prompt(input, { whenBusy, channel, channelOnly, ...o } = {}) {
    return this.#sendAt("prompt", { ...inputOf(input), whenBusy, channel, channelOnly }, o);
  }

  /** Sends an input that reaches the model before its next call. @param {Input} input @param {SendOptions} [o] */
  steer(input, o) {
    return this.#sendAt("steer", inputOf(input), o);
  }

  /** Sends an input that reaches the model when the run would end. @param {Input} input @param {SendOptions} [o] */
  followUp(input, o) {
    return this.#sendAt("follow_up", inputOf(input), o);
  }

  /** Starts a run from the transcript as it is, or from what is queued. @param {SendOptions} [o] */
  continue({ channel, channelOnly, ...o } = {}) {
    return this.#sendAt("continue", { channel, channelOnly }, o);
  }

  /** The run of an input that has been sent, by anybody at any time. @param {string} commandId */
  run(commandId) {
    return new Run(this, { id: commandId, seqs: [], at: { stream: 0, seq: 0 } });
  }

  /** Ends the run under way. @param {string} [reason] @param {SendOptions & { clearQueue?: boolean }} [o] */
  abort(reason, { clearQueue, ...o } = {}) {
    return this.do("abort", { reason, clearQueue }, o);
  }

  /**
   * Lets a call be executed that waits for approval; with args, with these in place of its own. Those that do not fit the
   * tool's schema are refused (invalid_args), and the call waits on. @param {string} call @param {string} [reason]
   * @param {SendOptions & { args?: object }} [o]
   */
  approve(call, reason, { args, ...o } = {}) {
    return this.do("approve", { call, reason, args }, o);
  }

  /** Has a call answered with an error that says the reason. @param {string} [call] @param {string} [reason] @param {SendOptions} [o] */
  deny(call, reason, o) {
    return this.do("deny", { call, reason }, o);
  }

  /** Changes a setting: set("model", {model}), set("tools", {tools}) and so on. @param {string} name @param {object} data @param {SendOptions} [o] */
  set(name, data, o) {
    return this.do(`set_${name}`, data, o);
  }

  /** Makes this session, which must not have begun, a copy of another one as far as its event seq, 0 for all. @param {string} of @param {number} [seq] @param {SendOptions} [o] */
  branch(of, seq = 0, o) {
    return this.do("branch", { session: of, seq: seq || undefined }, o);
  }

  /**
   * Moves the leaf of the session's tree to an entry, or, where that is a user's message, to its parent. Returns the text
   * that is to be written anew, if any. @param {string} targetId
   * @param {SendOptions & { summarize?: boolean, customInstructions?: string, replaceInstructions?: boolean, label?: string }} [o]
   */
  navigate(targetId, { summarize, customInstructions, replaceInstructions, label, ...o } = {}) {
    return this.do("navigate", { targetId, summarize, customInstructions, replaceInstructions, label }, o);
  }

  /** Puts a label on an entry of the tree; an empty one takes it off. @param {string} targetId @param {string} label @param {SendOptions} [o] */
  label(targetId, label, o) {
    return this.do("label", { targetId, label: label || undefined }, o);
  }

  /** Names the session, for people. @param {string} name @param {SendOptions} [o] */
  name(name, o) {
    return this.do("name", { name }, o);
  }

  /**
   * Makes this session, which must not have begun, a copy of another one as far as an entry of its tree, "at" (default)
   * or "before" it. Returns the text that is to be written anew, if any. @param {string} of @param {string} entryId
   * @param {SendOptions & { position?: "at" | "before" }} [o]
   */
  fork(of, entryId, { position, ...o } = {}) {
    return this.do("branch", { session: of, entryId, position }, o);
  }

  /** Sends a command of any kind and waits for its outcome, whose text, if any, it returns. @param {string} kind @param {object} [data] @param {SendOptions} [o] */
  async do(kind, data = {}, o = {}) {
    const { link, subjects } = this.client;
    const limit = AbortSignal.timeout(link.requestTimeout);
    const signal = o.signal ? AbortSignal.any([o.signal, limit]) : limit;
    const { sent } = await this.#sendAt(kind, data, { ...o, signal });
    const follower = new Follower(link, subjects, this.id, { from: sent.at.seq + 1, at: sent.at, updates: false, signal });
    for await (const { event } of follower.run()) {
      const o = outcomeOf(event, sent);
      if (o?.error) throw o.error;
      if (o?.applied) return event.data.text ?? "";
    }
    return "";
  }

  /**
   * Sends a command and returns when the server has stored it: {id, seqs}. It is sent again until it is stored, which its
   * id makes harmless. An input over 400 KiB, and up to 8 MiB, is uploaded first. @param {string} kind @param {object} [data] @param {SendOptions} [o]
   */
  async send(kind, data = {}, { id = `client-${random()}`, traceparent, signal } = {}) {
    const { link, subjects, source, nc } = this.client;
    if (typeof id !== "string" || !/^[\p{L}\p{M}\p{N}\p{P}\p{S} ]{1,128}$/u.test(id) || !id.trim()) {
      throw new TypeError("the id of a command is not 1 to 128 printable characters");
    }
    const event = {
      specversion: "1.0", id, source, type: `dev.loopbus.${kind}.v1`, subject: this.id, traceparent,
      datacontenttype: "application/json", data,
    };
    const json = JSON.stringify(data);
    const headers = isLarge(kind, json) ? attributes(await upload(link, json, signal), event) : undefined;
    const seqs = [];
    await link.persist(async (timeout) => {
      const ack = (await nc.request(subjects.command(this.id, kind), headers ? "" : JSON.stringify(event), { timeout, headers })).json();
      if (ack.error) throw Object.assign(new Error(ack.error.description), { name: "JetStreamError", status: ack.error.code, code: ack.error.err_code });
      seqs.push(ack.seq);
    }, { signal });
    return { id, seqs };
  }

  /** Sends a command and remembers how far the log was before, so that its outcome is looked for from there. */
  async #sendAt(kind, data, o = {}) {
    const { link, subjects } = this.client;
    const at = o.id !== undefined ? { stream: 0, seq: 0 }
      : await link.persist((timeout) => head(link, subjects, this.id, timeout), o);
    return new Run(this, { ...(await this.send(kind, data, o)), at });
  }

  /**
   * Follows the session from an event: what is stored, then what happens, until the signal is aborted. 0 is from now on,
   * with the reply that is being streamed. @param {number} [from] @param {Stop & { updates?: boolean }} [o]
   * @returns {AsyncIterable<Item>}
   */
  watch(from = 0, { updates = true, signal } = {}) {
    return new Follower(this.client.link, this.client.subjects, this.id, { from, updates, signal }).run();
  }

  /** Yields the events of the log from one on, as far as there are any now. @param {number} [from] @param {Stop} [o] @returns {AsyncIterable<Event>} */
  async *history(from = 1, { signal } = {}) {
    const { link, subjects } = this.client;
    const follower = new Follower(link, subjects, this.id, { from: Math.max(1, from), updates: false, signal });
    for await (const { event } of follower.stored()) yield event;
  }

  /** What the session is doing. @param {Asked} [o] */
  state(o) {
    return this.client.query([this.id, "state"], {}, o);
  }

  /** What the session has used. @param {Stop} [o] */
  stats(o) {
    return this.client.query([this.id, "stats"], {}, o);
  }

  /** A page of the session's tree, {limit, cursor}; the first has its family too. @param {object} [query] @param {Stop} [o] */
  tree(query, o) {
    return this.client.query([this.id, "tree"], query, o);
  }

  /** A page of the transcript: {before, after, limit}. @param {object} [query] @param {Stop} [o] */
  messages(query, o) {
    return this.client.query([this.id, "messages"], query, o);
  }

  /** One event of the log, undefined if there is none. @param {number} seq @param {Stop} [o] @returns {Promise<Event | undefined>} */
  async event(seq, o) {
    for await (const e of this.history(seq, o)) return e;
    return undefined;
  }
}

const inputOf = (input) => (typeof input === "string" ? { text: input } : input);

/** The run of one input. Any number of loops may follow it. */
export class Run {
  #ended;

  constructor(session, sent) {
    this.session = session;
    this.sent = sent;
    this.commandId = sent.id;
  }

  /**
   * Yields the command's own events and those of its run, with the updates, from the first to the run's agent_end. That
   * the input was refused is thrown as a RejectedError, that it was withdrawn as a WithdrawnError.
   * @param {Stop & { updates?: boolean }} [o] @returns {AsyncIterable<Item>}
   */
  async *items({ updates = true, signal } = {}) {
    const { client, id } = this.session;
    const tracker = new Tracker(this.sent);
    const { at } = this.sent;
    const follower = new Follower(client.link, client.subjects, id, { from: at.seq + 1, at, updates, signal });
    for await (const item of follower.run()) {
      const ours = tracker.take(item);
      this.#ended = tracker.ended ?? this.#ended;
      if (ours) yield item;
      if (tracker.ended?.error) throw tracker.ended.error;
      if (tracker.ended) return;
    }
  }

  /**
   * Waits for the end of the run and returns what it came to. A run that ended badly is no error: reason says so.
   * @param {Stop} [o]
   * @returns {Promise<{runId: string, seq: number, reason?: string, errorMessage?: string, reply?: object, text: string,
   *   turns?: number, usage?: object, cost?: number, durationMs?: number, handled?: boolean}>}
   */
  async wait(o = {}) {
    if (!this.#ended) for await (const _ of this.items({ ...o, updates: false }));
    if (this.#ended.error) throw this.#ended.error;
    return this.#ended.result;
  }
}

/** Finds the run of a command in what happens in its session. */
class Tracker {
  constructor(sent) {
    this.sent = sent;
  }

  take({ event: e, update: u }) {
    if (u) return this.run !== undefined && (u.runId === this.run || u.runId === "");
    const { id } = this.sent;
    let ours = false;
    if (e.type === "agent_start") {
      if (e.correlationId === id || e.data.inputs?.includes(id)) this.run = e.runId;
    } else if (e.type === "hook_decision") {
      ours = e.data.commandId === id;
      this.handled ||= ours && e.data.handled;
    } else {
      const o = outcomeOf(e, this.sent);
      ours = o !== undefined;
      if (o?.error) this.ended = { error: o.error };
      else if (o?.applied && this.handled) this.ended = { result: { runId: "", seq: e.seq, text: "", handled: true } };
      else if (o?.applied) this.run ??= e.runId || undefined;
    }
    if (this.run === undefined || e.runId !== this.run) return ours;
    if (e.type === "message_end" && e.data.message.role === "assistant" && !e.data.interrupted) {
      this.reply = e.data.message;
    } else if (e.type === "agent_end") {
      const { terminationReason: reason, errorMessage, turns, usage, durationMs } = e.data;
      this.ended = { result: {
        runId: this.run, seq: e.seq, reason, errorMessage, reply: this.reply, text: textOf(this.reply), turns, usage,
        cost: usage?.cost?.total, durationMs,
      } };
    }
    return true;
  }
}

/** The text of a message, without thinking and calls. @param {object} [message] */
export function textOf(message) {
  const { content } = message ?? {};
  if (typeof content === "string") return content;
  return (content ?? []).filter((b) => b.type === "text").map((b) => b.text).join("");
}

/** The text that an update adds to the reply being streamed. @param {Item} item */
export function deltaOf({ update }) {
  if (update?.type !== "message_update") return "";
  return update.data.assistantMessageEvents.filter((e) => e.type === "text_delta").map((e) => e.delta).join("");
}

/** What an event says of a command, undefined if nothing. */
function outcomeOf(e, { id, seqs }) {
  const of = e.data.commandId === id;
  switch (e.type) {
    case "command_accepted":
      return of ? {} : undefined;
    case "command_applied":
      return of ? { applied: true } : undefined;
    case "command_rejected": // a command that cannot be read is named by where it is stored
      return of || seqs.includes(e.data.streamSeq) ? { error: new RejectedError(e.session, id, e.data) } : undefined;
    case "command_superseded":
    case "command_withdrawn":
      return of ? { error: new WithdrawnError(e.session, id, e.data, e.type === "command_superseded") } : undefined;
  }
  return undefined;
}
