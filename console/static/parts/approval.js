// A call that waits for approval, or was answered.

import { parse, stringify } from "../client/numbers.js";
import { clock, editable } from "../format.js";
import { doing } from "../state.js";
import { html } from "../html.js";
import { useState } from "../vendor/preact.js";

export function Approval({ a, session }) {
  if (a.answer) {
    return html`<p class="approval ${a.answer.approved ? "ok" : "bad"}">${a.answer.approved ? "Approved" : "Denied"} by ${a.answer.by || "somebody"}
      ${a.answer.args ? ", with other arguments" : ""}${a.answer.reason ? `: ${a.answer.reason}` : ""} <span class="at">${clock(a.answer.time)}</span></p>`;
  }
  return html`<div class="approval asks"><p>${a.by ? `${a.by} asks` : "This call waits for approval"}${a.reason ? `: ${a.reason}` : ""}</p>
    ${session && html`<${Answer} session=${session} asked=${a} />`}</div>`;
}

/** Approves or denies a call, or changes its arguments. Who cannot see them cannot approve. */
export function Answer({ session, asked, blind = false }) {
  const { args } = asked;
  const [reason, setReason] = useState("");
  const [edited, setEdited] = useState(null); // the text of the arguments while the user edits them
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const answer = async (kind) => {
    const other = kind === "approve" && edited !== null ? changed(edited, args) : {};
    setProblem(other.problem ?? "");
    if (other.problem) return;
    setBusy(true);
    await doing(kind === "approve" ? "Approve" : "Deny", () => session[kind](asked, reason || undefined, other.args && { args: other.args }));
    setBusy(false);
  };
  return html`<div class="answer"><button class="primary" disabled=${busy || blind} onClick=${() => answer("approve")}>
      ${edited === null ? "Approve" : "Approve as changed"}</button>
    <button class="danger" disabled=${busy} onClick=${() => answer("deny")}>Deny</button>
    <button aria-expanded=${edited !== null} disabled=${blind} onClick=${() => (setProblem(""), setEdited(edited === null ? editable(args ?? {}) : null))}>
      ${edited === null ? "Change the arguments" : "Leave them as they are"}</button>
    <input aria-label="Reason" placeholder="Reason" value=${reason} onInput=${(e) => setReason(e.target.value)} />
    ${edited !== null && html`<textarea class="mono" aria-label="Arguments" aria-invalid=${problem !== ""} rows=${Math.min(16, edited.split("\n").length + 1)}
      spellcheck=${false} dir="ltr" value=${edited} onInput=${(e) => setEdited(e.target.value)}></textarea>`}
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}</div>`;
}

/** The edited arguments: args, undefined if they are unchanged, or a problem. */
function changed(text, before) {
  let args;
  try {
    args = parse(text);
  } catch (err) {
    return { problem: `This is not JSON: ${err.message}` };
  }
  if (typeof args !== "object" || args === null || Array.isArray(args)) return { problem: "The arguments must be a JSON object." };
  return stringify(args) === stringify(before) ? {} : { args };
}
