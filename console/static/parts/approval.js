// A call that waits for somebody's agreement, or had an answer.

import { clock } from "../format.js";
import { doing } from "../state.js";
import { html, useState } from "../vendor/preact.js";

export function Approval({ a, session }) {
  if (a.answer) {
    return html`<p class="approval ${a.answer.approved ? "ok" : "bad"}">${a.answer.approved ? "Approved" : "Denied"} by ${a.answer.by || "somebody"}
      ${a.answer.reason ? `: ${a.answer.reason}` : ""} <span class="at">${clock(a.answer.time)}</span></p>`;
  }
  return html`<div class="approval asks"><p>${a.by ? `${a.by} asks` : "This call waits for approval"}${a.reason ? `: ${a.reason}` : ""}</p>
    ${session && html`<${Answer} session=${session} call=${a.call} />`}</div>`;
}

/** Approve and deny, with a reason. */
export function Answer({ session, call }) {
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false);
  const answer = async (kind) => {
    setBusy(true);
    await doing(kind === "approve" ? "Approve" : "Deny", () => session[kind](call, reason || undefined));
    setBusy(false);
  };
  return html`<div class="answer"><button class="primary" disabled=${busy} onClick=${() => answer("approve")}>Approve</button>
    <button class="danger" disabled=${busy} onClick=${() => answer("deny")}>Deny</button>
    <input aria-label="Reason" placeholder="Reason" value=${reason} onInput=${(e) => setReason(e.target.value)} /></div>`;
}
