// The JavaScript client of loopbus, for Node.js and browsers, on a connection of @nats-io/nats-core. It imports only its
// own files.
//
//   import { connect } from "@nats-io/transport-node"; // in browsers wsconnect of @nats-io/nats-core
//   const c = client(await connect({ servers, maxReconnectAttempts: -1, waitOnFirstConnect: true }));
//   const run = await c.session("s1").prompt("list the files");
//   for await (const { event, update } of run.items()) { … }   // until the run ends, without gaps or duplicates
//   const { reason, text, usage, cost } = await run.wait();
//
// Every iterator and every method accepts { signal }, an AbortSignal. Leaving an iterator with break releases everything
// it has opened. docs/client.md states what following guarantees.

import { Approvals } from "./approvals.js";
import { Fleet } from "./fleet.js";
import { Follower, head } from "./follow.js";
import { attributes, isLarge, upload } from "./inputs.js";
import { parse, stringify } from "./numbers.js";
import { isModel, isSession } from "./shapes.js";
import { Link, TransientError, random, isAck, isNoResponders, isReadable, text } from "./stored.js";
import { listTools } from "./tools.js";

export { ExactNumber, parse, stringify } from "./numbers.js";
export { DamagedError, DeletedError } from "./stored.js";

/** @typedef {import("./log.js").Event} Event @typedef {import("./log.js").Update} Update */
/** @typedef {{ event?: Event, update?: Update }} Item Exactly one of the two is set. */
/** @typedef {{ signal?: AbortSignal }} Stop */
/** @typedef {Stop & { timeout?: number }} Asked timeout limits retries, in ms; default requestTimeout. */
/** @typedef {string | { text?: string, images?: { type: "image", mimeType: string, data: string }[], messages?: object[] }} Input */
/** @typedef {string | { call: string, digest?: string }} Asking */
/** @typedef {Stop & { id?: string, whenBusy?: string, channel?: string, channelOnly?: boolean, traceparent?: string }} SendOptions */

/** Why a command was refused (docs/protocol.md). Later versions may add more. */
export const REJECT_CODES = Object.freeze([
  "invalid", "unknown", "too_large", "not_plain", "cloud_event", "foreign", "busy", "no_run", "state", "not_found",
  "consumed", "failed", "aborted", "invalid_args", "no_tool", "no_model", "no_profile", "queue_full", "delivery",
  "stale", "permission", "internal",
]);

/** A session refused a command, which changed nothing. code is one of REJECT_CODES; reason is for people. */
export class RejectedError extends Error {
  name = "RejectedError";
  constructor(session, commandId, { kind, code, reason }) {
    super(`session ${session} rejected ${kind} ${commandId}: ${reason} (${code})`);
    Object.assign(this, { session, commandId, kind, code, reason });
  }
}

/** An input was withdrawn or superseded before it had an effect. by is the id of the command that caused it. */
export class WithdrawnError extends Error {
  name = "WithdrawnError";
  constructor(session, commandId, { kind, by }, superseded) {
    super(`session ${session}: ${kind} ${commandId} was ${superseded ? "superseded" : "withdrawn"} by ${by}`);
    Object.assign(this, { session, commandId, kind, by, superseded });
  }
}

/** A runner refused a query. code is invalid, not_found, busy, unavailable, damaged or internal. */
export class QueryError extends Error {
  name = "QueryError";
  constructor(subject, { code, reason }) {
    super(`query ${subject}: ${code}: ${reason}`);
    Object.assign(this, { code, reason });
  }
}

const TOKEN = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * Returns a client that uses a connection. The caller keeps ownership of the connection and should configure it to
 * reconnect for ever.
 * @param {import("@nats-io/nats-core").NatsConnection} nc
 * @param {{ prefix?: string, source?: string, requestTimeout?: number, apiPrefix?: string }} [options] first part of all
 *   subjects; CloudEvents source of commands; limit of a request with its retries, in ms; prefix of JetStream API subjects
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

  /** Whether the connection is currently established. */
  get connected() {
    return this.link.up && !this.link.closed;
  }

  /** Calls f when the connection is lost, re-established, or closed. Returns a function that stops this. */
  onConnection(f) {
    return this.link.onChange(() => f(this.connected));
  }

  /** Returns a handle of a session, which need not exist yet. @param {string} id */
  session(id) {
    return new Session(this, id);
  }

  /** Returns a page of sessions; see schemas/jsonschema/queries/sessions_query. @param {Asked} [o] */
  async sessions(query = {}, o) {
    const page = await this.query(["sessions"], query, o);
    return { ...page, sessions: page.sessions.filter(isSession) };
  }

  /**
   * Returns the models of the runners' catalogue, with prices, limits, and whether a key is configured.
   * @param {Asked} [o]
   */
  async models(o) {
    const models = [];
    for (let cursor; ; ) {
      const page = await this.query(["models"], { cursor }, o);
      models.push(...page.models.filter(isModel));
      if (!(cursor = page.next)) return models;
    }
  }

  /** Returns the tools that workers currently announce, each with its workers. @param {Asked} [o] */
  tools({ signal, timeout } = {}) {
    return this.link.retry(() => listTools(this.link, signal), { signal, timeout });
  }

  /**
   * Yields the waiting approvals of all sessions, then each new one as it is requested, and each again once it no
   * longer waits: {session, seq, call, digest, toolCallId, toolName, args, reason, by, requested, expires, waiting,
   * resolved}.
   * @param {Stop} [o]
   */
  approvals(o = {}) {
    return new Approvals(this, o).run();
  }

  /** The state of the deployment, for operators. */
  get fleet() {
    return new Fleet(this);
  }

  /**
   * Sends a query, which one of the runners answers.
   * @param {string[]} tokens @param {object} [request] @param {Asked} [o]
   */
  async query(tokens, request = {}, o) {
    const subject = this.subjects.query(...tokens);
    return this.link.retry(async (timeout) => {
      const body = JSON.stringify(request);
      let m = await this.nc.request(subject, body, { timeout }).catch((err) => {
        throw isNoResponders(err) ? new TransientError(`query ${subject}: no runner answers`, { cause: err }) : err;
      });
      if (isAck(m)) m = await this.link.answer(subject, body, timeout); // a stream stores queries
      if (!isReadable(m)) throw new QueryError(subject, { code: "internal", reason: "the headers of the answer are too large" });
      if (m.headers?.get("Nats-Service-Error-Code")) {
        let refused = { code: "internal", reason: m.headers.get("Nats-Service-Error") };
        try {
          refused = m.json() ?? refused;
        } catch {
          // not the answer of a query: the header has the reason
        }
        throw new QueryError(subject, refused);
      }
      return parse(text(m));
    }, o);
  }
}

export class Session {
  /** @param {Client} client @param {string} id */
  constructor(client, id) {
    if (!TOKEN.test(id)) throw new TypeError(`${JSON.stringify(id)} is not a session id`);
    this.client = client;
    this.id = id;
  }

  /**
   * Sends a prompt. Returns the run that it starts or, depending on whenBusy, joins or waits for.
   * @param {Input} input @param {SendOptions} [o]
   */
  prompt(input, { whenBusy, channel, channelOnly, ...o } = {}) {
    return this.#sendTracked("prompt", { ...inputOf(input), whenBusy, channel, channelOnly }, o);
  }

  /** Sends an input that reaches the model before its next call. @param {Input} input @param {SendOptions} [o] */
  steer(input, o) {
    return this.#sendTracked("steer", inputOf(input), o);
  }

  /**
   * Sends an input that reaches the model when the run would otherwise end.
   * @param {Input} input @param {SendOptions} [o]
   */
  followUp(input, o) {
    return this.#sendTracked("follow_up", inputOf(input), o);
  }

  /** Starts a run from the transcript as it is, or from queued inputs. @param {SendOptions} [o] */
  continue({ channel, channelOnly, ...o } = {}) {
    return this.#sendTracked("continue", { channel, channelOnly }, o);
  }

  /** Returns the run of an input sent earlier, by this or another client. @param {string} commandId */
  run(commandId) {
    return new Run(this, { id: commandId, seqs: [], at: { stream: 0, seq: 0 } });
  }

  /** Ends the current run. @param {string} [reason] @param {SendOptions & { clearQueue?: boolean }} [o] */
  abort(reason, { clearQueue, ...o } = {}) {
    return this.do("abort", { reason, clearQueue }, o);
  }

  /**
   * Lets a call that waits for approval execute; args replace all of its arguments and must match the tool's schema
   * (else invalid_args). asked is what was shown to the approver: an item of approvals(), or the data of an
   * approval_requested event. If another call waits by now, the answer is refused (stale). A key without a digest
   * approves whatever waits under it.
   * @param {Asking} asked @param {string} [reason] @param {SendOptions & { args?: object }} [o]
   */
  approve(asked, reason, { args, ...o } = {}) {
    return this.do("approve", { ...answerTo(asked), reason, args }, o);
  }

  /**
   * Refuses a call: the model receives an error result with the reason.
   * @param {Asking} asked as for approve @param {string} [reason] @param {SendOptions} [o]
   */
  deny(asked, reason, o) {
    return this.do("deny", { ...answerTo(asked), reason }, o);
  }

  /**
   * Changes a setting: set("model", {model}), set("tools", {tools}) and so on.
   * @param {string} name @param {object} data @param {SendOptions} [o]
   */
  set(name, data, o) {
    return this.do(`set_${name}`, data, o);
  }

  /**
   * Makes this session, which must not have started, a copy of another one up to and including event seq, 0 for all.
   * @param {string} of @param {number} [seq] @param {SendOptions} [o]
   */
  branch(of, seq = 0, o) {
    return this.do("branch", { session: of, seq: seq || undefined }, o);
  }

  /**
   * Moves the leaf of the session's tree to an entry or, from a user's message, to its parent, and returns the
   * message's text then.
   * @param {string} targetId
   * @param {SendOptions & { summarize?: boolean, customInstructions?: string, replaceInstructions?: boolean, label?: string }} [o]
   */
  navigate(targetId, { summarize, customInstructions, replaceInstructions, label, ...o } = {}) {
    return this.do("navigate", { targetId, summarize, customInstructions, replaceInstructions, label }, o);
  }

  /**
   * Sets the label of an entry of the tree; an empty label removes it.
   * @param {string} targetId @param {string} label @param {SendOptions} [o]
   */
  label(targetId, label, o) {
    return this.do("label", { targetId, label: label || undefined }, o);
  }

  /** Sets the session's display name. @param {string} name @param {SendOptions} [o] */
  name(name, o) {
    return this.do("name", { name }, o);
  }

  /**
   * Like branch, up to an entry of the tree: "at" (default) includes it; "before" ends before it, a user's message,
   * and returns its text.
   * @param {string} of @param {string} entryId @param {SendOptions & { position?: "at" | "before" }} [o]
   */
  fork(of, entryId, { position, ...o } = {}) {
    return this.do("branch", { session: of, entryId, position }, o);
  }

  /**
   * Sends a command of any kind, waits for its outcome, and returns the text of the outcome, if any.
   * @param {string} kind @param {object} [data] @param {SendOptions} [o]
   */
  async do(kind, data = {}, o = {}) {
    const { link, subjects } = this.client;
    const limit = AbortSignal.timeout(link.requestTimeout);
    const signal = o.signal ? AbortSignal.any([o.signal, limit]) : limit;
    const { sent } = await this.#sendTracked(kind, data, { ...o, signal });
    const follower = new Follower(link, subjects, this.id, { from: sent.at.seq + 1, at: sent.at, updates: false, signal });
    for await (const { event } of follower.run()) {
      const o = outcomeOf(event, sent);
      if (o?.error) throw o.error;
      if (o?.applied) return event.data.text ?? "";
    }
    return "";
  }

  /**
   * Sends a command until the server has stored it, which the id makes harmless, and returns {id, seqs}. An input of
   * 400 KiB to 8 MiB is uploaded first.
   * @param {string} kind @param {object} [data] @param {SendOptions} [o]
   */
  async send(kind, data = {}, { id = `client-${random()}`, traceparent, signal } = {}) {
    const { link, subjects, source, nc } = this.client;
    if (typeof id !== "string" || !/^[\p{L}\p{M}\p{N}\p{P}\p{S} ]{1,128}$/u.test(id) || !id.trim()) {
      throw new TypeError("the id of a command must be 1 to 128 printable characters");
    }
    const event = {
      specversion: "1.0", id, source, type: `dev.loopbus.${kind}.v1`, subject: this.id, traceparent,
      datacontenttype: "application/json", data,
    };
    const json = stringify(data);
    const headers = isLarge(kind, json) ? attributes(await upload(link, json, signal), event) : undefined;
    const seqs = [];
    await link.retry(async (timeout) => {
      const ack = (await nc.request(subjects.command(this.id, kind), headers ? "" : stringify(event), { timeout, headers })).json();
      if (ack.error) throw refusal(ack.error);
      seqs.push(ack.seq);
    }, { signal });
    return { id, seqs };
  }

  /** Sends a command and records the end of the log before it, so that the outcome is searched for from there. */
  async #sendTracked(kind, data, o = {}) {
    const { link, subjects } = this.client;
    const at = o.id !== undefined ? { stream: 0, seq: 0 }
      : await link.retry((timeout) => head(link, subjects, this.id, timeout), o);
    return new Run(this, { ...(await this.send(kind, data, o)), at });
  }

  /**
   * Follows the session from an event: yields what is stored, then what happens, until the signal is aborted. 0 means
   * from now on, including the updates so far of a reply that is being streamed.
   * @param {number} [from] @param {Stop & { updates?: boolean }} [o] @returns {AsyncIterable<Item>}
   */
  watch(from = 0, { updates = true, signal } = {}) {
    return new Follower(this.client.link, this.client.subjects, this.id, { from, updates, signal }).run();
  }

  /**
   * Yields the events that the log holds now, beginning with a sequence.
   * @param {number} [from] @param {Stop} [o] @returns {AsyncIterable<Event>}
   */
  async *history(from = 1, { signal } = {}) {
    const { link, subjects } = this.client;
    const follower = new Follower(link, subjects, this.id, { from: Math.max(1, from), updates: false, signal });
    for await (const { event } of follower.stored()) yield event;
  }

  /** Returns what the session is doing. @param {Asked} [o] */
  state(o) {
    return this.client.query([this.id, "state"], {}, o);
  }

  /** Returns what the session has used. @param {Stop} [o] */
  stats(o) {
    return this.client.query([this.id, "stats"], {}, o);
  }

  /**
   * Returns a page of the session's tree, {limit, cursor}; the first includes its family.
   * @param {object} [query] @param {Stop} [o]
   */
  tree(query, o) {
    return this.client.query([this.id, "tree"], query, o);
  }

  /** Returns a page of the transcript: {before, after, limit}. @param {object} [query] @param {Stop} [o] */
  messages(query, o) {
    return this.client.query([this.id, "messages"], query, o);
  }

  /**
   * Returns one event of the log, undefined if there is none.
   * @param {number} seq @param {Stop} [o] @returns {Promise<Event | undefined>}
   */
  async event(seq, o) {
    for await (const e of this.history(seq, o)) return e;
    return undefined;
  }
}

const FULL = 10077; // the server's error code for a stream that has reached a limit

/** Converts the server's refusal to store a command into an Error. */
function refusal({ code: status, err_code: code, description }) {
  const why = code === FULL ? "the inbox is full: a thousand commands of this kind wait for the session, or the inbox of all " +
    `sessions has reached its limit; try again when runners have caught up (${description})` : description;
  return Object.assign(new Error(why), { name: "JetStreamError", status, code });
}

const inputOf = (input) => (typeof input === "string" ? { text: input } : input);
const answerTo = (asked) => (typeof asked === "string" ? { call: asked } : { call: asked.call, digest: asked.digest });

/** The run of one input. Any number of loops may follow it. */
export class Run {
  #ended;

  constructor(session, sent) {
    this.session = session;
    this.sent = sent;
    this.commandId = sent.id;
  }

  /**
   * Yields the events of the command and of its run, with updates, up to and including the run's agent_end. Throws a
   * RejectedError if the input was refused, a WithdrawnError if it was withdrawn.
   * @param {Stop & { updates?: boolean }} [o] @returns {AsyncIterable<Item>}
   */
  async *items({ updates = true, signal } = {}) {
    const { client, id } = this.session;
    const tracker = new Tracker(this.sent);
    const { at } = this.sent;
    const follower = new Follower(client.link, client.subjects, id, { from: at.seq + 1, at, updates, signal });
    for await (const item of follower.run()) {
      const ours = tracker.observe(item);
      this.#ended = tracker.ended ?? this.#ended;
      if (ours) yield item;
      if (tracker.ended?.error) throw tracker.ended.error;
      if (tracker.ended) return;
    }
  }

  /**
   * Waits until the run ends and returns its result. A run that fails does not throw: see reason.
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

/** Finds the run of a command among the items of its session. */
class Tracker {
  constructor(sent) {
    this.sent = sent;
  }

  observe({ event: e, update: u }) {
    if (u) return this.run !== undefined && (u.runId === this.run || u.runId === "");
    const { id } = this.sent;
    let ours = false;
    if (e.type === "agent_start") {
      if (e.correlationId === id || e.data.inputs?.includes?.(id)) this.run = e.runId;
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
    if (e.type === "message_end" && e.data.message?.role === "assistant" && !e.data.interrupted) {
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

/** Returns the text of a message, without thinking and tool calls. @param {object} [message] */
export function textOf(message) {
  const { content } = message ?? {};
  if (typeof content === "string") return content;
  return (Array.isArray(content) ? content : []).filter((b) => b?.type === "text").map((b) => b.text).join("");
}

/** Returns the text that an update adds to the reply being streamed. @param {Item} item */
export function deltaOf({ update }) {
  if (update?.type !== "message_update") return "";
  return update.data.assistantMessageEvents.filter((e) => e.type === "text_delta").map((e) => e.delta).join("");
}

/** Returns what an event tells about a command, undefined if nothing. */
function outcomeOf(e, { id, seqs }) {
  const of = e.data.commandId === id;
  switch (e.type) {
    case "command_accepted":
      return of ? {} : undefined;
    case "command_applied":
      return of ? { applied: true } : undefined;
    case "command_rejected": // a command that cannot be decoded is named by its stream sequence
      return of || seqs.includes(e.data.streamSeq) ? { error: new RejectedError(e.session, id, e.data) } : undefined;
    case "command_superseded":
    case "command_withdrawn":
      return of ? { error: new WithdrawnError(e.session, id, e.data, e.type === "command_superseded") } : undefined;
  }
  return undefined;
}
