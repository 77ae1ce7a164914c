// The calls of all sessions that wait for approval.

import { html } from "../html.js";
import { Answer } from "../parts/approval.js";
import { Guard } from "../parts/guard.js";
import { Json } from "../parts/text.js";
import { ago, askedKey, clock } from "../format.js";
import { notify, notifying } from "../notify.js";
import { useWatched } from "../state.js";
import { useEffect, useState } from "../vendor/preact.js";

/** The switch for browser notifications while the page is in the background. */
function Notify() {
  const [how, setHow] = useState(notifying());
  if (how === "never") return html`<p class="quiet">Notifications are not to be had: the browser has none, or has been told not to show them.</p>`;
  return html`<p><label><input type="checkbox" checked=${how === "on"} onChange=${async (e) => setHow(await notify(e.target.checked))} /> Notify me
    when a call waits and this page is not in front</label></p>`;
}

export function ApprovalsView({ bus, waiting }) {
  useWatched(waiting);
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return html`<section class="page" aria-label="Approvals"><h1>Approvals</h1><${Notify} />
    ${waiting.error && html`<p class="problem" role="alert">${waiting.error}</p>`}
    ${!waiting.error && waiting.list.length === 0 && html`<p class="empty">Nothing waits for approval.</p>`}
    <ul class="cards" role="list">${waiting.list.map((a) => html`<li key=${askedKey(a)} class="card"><${Guard}>
      <${Asked} bus=${bus} a=${a} now=${now} /></${Guard}></li>`)}</ul></section>`;
}

function Asked({ bus, a, now }) {
  return html`<header><span class="tool">${a.toolName}</span> in <a href="#/s/${a.session}">${a.session}</a>
      <span class="quiet">since ${clock(a.requested)}, ${ago(a.requested, now)}${a.expires ? `, until ${clock(a.expires)}` : ""}</span></header>
    <p>${a.by || "The runner"} asks${a.reason ? `: ${a.reason}` : ""}</p>
    ${a.unreadable ? html`<p class="problem" role="alert">What it would be executed with cannot be read.</p>` : html`<${Json} value=${a.args ?? {}} exact />`}
    <${Answer} session=${bus.session(a.session)} asked=${a} blind=${a.unreadable} />`;
}
