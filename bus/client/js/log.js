// Decodes the messages of a session's log and its updates.

import { parse } from "./numbers.js";
import { having, isObject, isText, listOf, maybe, read } from "./shapes.js";
import { DamagedError, text } from "./stored.js";

/**
 * @typedef {object} Event An event of a session's log. @property {string} session
 * @property {number} seq       1, 2, 3 … in the session, without a gap
 * @property {string} type      such as "message_end" @property {string} time      RFC 3339 @property {string} source
 * @property {string} runId     "" where there is none, as in turnId @property {string} turnId
 * @property {string} correlationId  id of the command that began the run
 * @property {string} causationId    id of the command that it goes back to @property {string} traceparent
 * @property {any} data         see schemas/jsonschema/events
 * @property {string} [dataref] where data was kept, if it was too large for the log
 * @typedef {object} Update A live delta of an event. @property {string} session
 * @property {number} event     sequence of the event that it belongs to
 * @property {number} n         its number there, from 1
 * @property {string} type      "message_update" or "tool_execution_update" @property {string} time
 * @property {string} runId @property {any} data         see schemas/jsonschema/updates
 */

const plain = (value) => {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
};
const header = (m, key) => plain(m.headers?.get(key) ?? "");

const ID = /^([A-Za-z0-9_-]{1,64})\/([1-9]\d{0,15})$/;
const TYPE = /^dev\.loopbus\.([a-z_]+)\.v1$/;
const SPAN = /^v2 ([1-9]\d{0,15})-([1-9]\d{0,15})$/;

/**
 * The events that a message on the subject of a session's log has: a commit, or one event in binary mode. Undefined if
 * the message is no part of the log. Throws a DamagedError for one that says that it is and does not fit.
 * @returns {Event[] | undefined}
 */
export function eventsOf(session, m) {
  const span = m.headers?.get("Loopbus-Commit");
  const events = span ? commit(session, span, m) : binary(session, m);
  return events;
}

function commit(session, span, m) {
  let batch;
  try {
    batch = parse(text(m));
  } catch (err) {
    throw new DamagedError(`a commit of session ${session} is not JSON: ${err.message}`);
  }
  const of = ID.exec(batch?.[0]?.id ?? "")?.[1];
  if (of !== undefined && of !== session) return undefined; // of another session
  const [, first, last] = SPAN.exec(span) ?? [];
  if (first === undefined || !Array.isArray(batch) || batch.length !== last - first + 1) {
    throw new DamagedError(`a commit of session ${session} does not contain the events ${span}`);
  }
  let before = {};
  return batch.map((e, i) => {
    const seq = Number(first) + i;
    const type = TYPE.exec(e?.type)?.[1];
    if (e?.id !== `${session}/${seq}` || !type || (e.dataref === undefined ? !isObject(e.data) : e.data !== undefined || !isText(e.dataref))) {
      throw new DamagedError(`event ${seq} of session ${session} is malformed`);
    }
    const inherit = (key) => e[key] ?? before[key] ?? "";
    const correlation = inherit("correlationid");
    before = {
      time: inherit("time"), runid: inherit("runid"), turnid: inherit("turnid"), correlationid: correlation,
      traceparent: inherit("traceparent"),
    };
    return {
      session, seq, type, time: before.time, source: e.source, runId: before.runid, turnId: before.turnid,
      correlationId: correlation, causationId: e.causationid ?? correlation, traceparent: before.traceparent,
      data: e.data, ...(e.dataref !== undefined && { dataref: e.dataref }),
    };
  });
}

function binary(session, m) {
  const [, of, seq] = ID.exec(header(m, "ce-id")) ?? [];
  if (of !== session) return undefined;
  const type = TYPE.exec(header(m, "ce-type"))?.[1];
  if (!type) throw new DamagedError(`event ${seq} of session ${session} has no event type`);
  const ref = header(m, "ce-dataref");
  let data;
  try {
    data = ref ? undefined : parse(text(m));
  } catch (err) {
    throw new DamagedError(`event ${seq} of session ${session} is not JSON: ${err.message}`);
  }
  if (!ref && !isObject(data)) throw new DamagedError(`event ${seq} of session ${session} is malformed`);
  return [{
    session, seq: Number(seq), type, time: header(m, "ce-time"), source: header(m, "ce-source"),
    runId: header(m, "ce-runid"), turnId: header(m, "ce-turnid"), correlationId: header(m, "ce-correlationid"),
    causationId: header(m, "ce-causationid"), traceparent: header(m, "ce-traceparent"),
    data, ...(ref && { dataref: ref }),
  }];
}

const MOST_BLOCKS = 10_000; // limit of a message's content blocks: a page reserves space for each
const isIndex = (v) => v === undefined || (Number.isInteger(v) && v >= 0 && v < MOST_BLOCKS);
const some = maybe(isText);

const isPiece = having({ type: isText, contentIndex: isIndex, delta: some, content: some, id: some, toolName: some });
const isBlock = having({ type: isText, text: some, data: some, mimeType: some });
const UPDATES = new Map([["message_update", having({ messageId: isText, assistantMessageEvents: listOf(isPiece) })],
  ["tool_execution_update", having({ call: some, partialResult: having({ content: maybe(listOf(isBlock)) }) })]]);

/** Decodes an update of the session; undefined for other messages: every worker may publish here. */
export function updateOf(session, m) {
  const type = TYPE.exec(header(m, "ce-type"))?.[1];
  const id = /^([A-Za-z0-9_-]{1,64})\/([1-9]\d{0,15})\.([1-9]\d{0,15})$/.exec(header(m, "ce-id"));
  if (id?.[1] !== session || !UPDATES.has(type)) return undefined;
  const data = read(text(m), UPDATES.get(type), parse);
  if (!data || (type === "message_update" && data.messageId !== `m${id[2]}`)) return undefined;
  return { session, event: Number(id[2]), n: Number(id[3]), type, time: header(m, "ce-time"), runId: header(m, "ce-runid"), data };
}
