// The sub-agent that a call has started: a link to it, and its state.

import { STATUS } from "../format.js";
import { resultOf } from "../subagents.js";
import { html } from "../html.js";
import { useEffect, useState } from "../vendor/preact.js";

const AGAIN = 2000; // ms

/** While the sub-agent works, its state is polled, if session is set. */
export function Child({ child, session, id }) {
  const [status, setStatus] = useState("");
  const works = child.state !== "ended";
  useEffect(() => {
    if (!session || !works) return undefined;
    const stop = new AbortController();
    const ask = async () => {
      const state = document.hidden ? undefined
        : await session.client.session(child.session).state({ signal: stop.signal, timeout: AGAIN }).catch(() => undefined);
      if (stop.signal.aborted) return;
      if (state) setStatus(state.status);
      timer = setTimeout(ask, AGAIN);
    };
    let timer;
    ask();
    return () => (stop.abort(), clearTimeout(timer));
  }, [session, child.session, works]);
  const how = child.state === "ended" ? resultOf(child.result) : child.state === "stops" ? "was asked to stop" : STATUS[status] ?? "at work";
  return html`<p class="child">Sub-agent <a href="#/s/${child.session}"><bdi>${child.name || child.session}</bdi></a>
    <span class="state ${works ? status || "running" : child.result.isError ? "failed" : "idle"}" role="status"><span class="dot" aria-hidden="true"></span>${how}</span>
    ${child.background && html`<span class="tag">in the background</span>`} <a href="#/s/${id}/with/${child.session}">Side by side</a></p>`;
}
