// Descriptions of the messages between a session and its sub-agents. It is pure.

import { cost, count, REASON } from "./format.js";

const ID = /^subagent\/([A-Za-z0-9_-]{1,64})\/(c\d+)\/[^/]+(\/result)?$/;

/** The sender of a command, by its id: the session that started this one, or one of its sub-agents. */
export function senderOf(commandId) {
  const m = ID.exec(commandId ?? "");
  return m && (m[3] ? { role: "Sub-agent", call: m[2] } : { role: "Parent", session: m[1] });
}

/** The outcome of a sub-agent. */
export function resultOf({ isError, reason, usage }) {
  const how = reason ? (REASON[reason] ?? reason) : "never started";
  return `${isError ? "failed" : "has given its result"}${isError || reason ? ` (${how})` : ""}${usage ? `, ${count(usage.totalTokens)} tokens, ${cost(usage.cost?.total)}` : ""}`;
}

const named = (d) => (d.name ? `${d.name}, session ${d.session}` : `session ${d.session}`);

const WORDS = {
  subagent_start: (d) => `Call ${d.call} starts the sub-agent ${named(d)}${d.background ? ", in the background" : ""}${d.join ? "; the run waits for it" : ""}`,
  subagent_abort: (d) => `The sub-agent of call ${d.call}, session ${d.session}, was asked to stop`,
  subagent_end: (d) => `The sub-agent of call ${d.call}, session ${d.session}, ${resultOf(d)}`,
  subagent_report: (d) => (d.undelivered ? `Session ${d.session}, the parent, could not receive the result: ${d.undelivered}`
    : `Reported to the parent, session ${d.session}: this sub-agent ${resultOf(d)}`),
};

const COMMANDS = {
  subagent_prompt: ({ parent }) => `Call ${parent.call} of session ${parent.session} started this sub-agent`,
  subagent_abort: ({ parent }) => `Session ${parent.session}, the parent, asks this sub-agent to stop`,
  subagent_result: (d) => `The sub-agent of call ${d.call}, session ${d.session}, ${resultOf(d)}`,
};

/** The description of an event about sub-agents, "" for any other. */
export function inWords({ type, data: d }) {
  const say = type === "command_accepted" ? COMMANDS[d.kind] && (() => COMMANDS[d.kind](d.data ?? {})) : WORDS[type];
  try {
    return say ? say(d) : "";
  } catch {
    return ""; // it is shown as it is all the same
  }
}
