// One session: its conversation, queue, usage and input.

import { html } from "../html.js";
import { Composer } from "../parts/composer.js";
import { Entry } from "../parts/entry.js";
import { Guard } from "../parts/guard.js";
import { Settings } from "../parts/settings.js";
import { visible, cost, count, duration, model, STATUS } from "../format.js";
import { Followed } from "../session.js";
import { doing, useOwned } from "../state.js";
import { useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";

const SHOWN = 120; // entries, from the last; more on demand

export function SessionView({ bus, id }) {
  return html`<${FollowedView} bus=${bus} id=${id} followed=${useOwned(() => new Followed(bus, id), [bus, id])} />`;
}

/** A session that the caller follows. beside is set if another session is shown next to it. */
export function FollowedView({ bus, id, followed, beside = false }) {
  if (!followed) return null;
  if (followed.error) return html`<p class="problem" role="alert">${followed.error}</p>`;
  if (!followed.loaded) {
    return html`<section class="session" aria-busy="true"><p class="empty" role="status">Reading the session …</p>
      ${followed.preview && html`<${Entries} fold=${followed.preview} session=${followed.session} id=${id} />`}</section>`;
  }
  return html`<${Conversation} bus=${bus} followed=${followed} id=${id} version=${followed.version} beside=${beside} />`;
}

function Conversation({ bus, followed, id, beside }) {
  const { fold, session, stats } = followed;
  const [draft, setDraft] = useState({ text: "" });
  const back = async (target) => {
    const text = await doing("Go back", () => session.navigate(target));
    if (text !== undefined) setDraft({ text });
  };
  return html`<section class="session" aria-label="Session ${id}">
    <${Guard}><${Facts} fold=${fold} stats=${stats} id=${id} /></${Guard}>
    <${Entries} fold=${fold} session=${session} id=${id} back=${fold.run ? undefined : back} />
    <div class="foot"><${Guard}><${Queue} fold=${fold} session=${session} /></${Guard}>
      <${Settings} bus=${bus} session=${session} fold=${fold} />
      <${Composer} session=${session} running=${fold.run !== null} fresh=${fold.seq === 0} draft=${draft} quiet=${beside} /></div></section>`;
}

function Facts({ fold, stats, id }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!fold.run) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [fold.run]);
  const filled = fold.context || stats?.contextTokens || 0;
  const window = stats?.contextWindow ?? 0;
  const status = fold.run ? (fold.waiting.size ? "waiting_for_approval" : "running") : fold.lastEnd?.bad ? "failed" : "idle";
  const state = fold.seq === 0 ? "new" : fold.run && fold.streaming ? "the model is answering" : STATUS[status];
  return html`<header class="facts" aria-label="About the session"><h1><a href="#/s/${id}">${fold.name ? html`<bdi>${fold.name}</bdi>` : id}</a></h1>
    <span class="state ${status}" role="status"><span class="dot" aria-hidden="true"></span>${state}
      ${fold.run ? ` (${duration(Math.max(0, now - Date.parse(fold.run.started)))})` : ""}</span>
    <span>${model(fold.config.model ?? stats?.model)}</span>
    <span title="Share of the context window that the newest reply used">context ${count(filled)}${window ? ` of ${count(window)}, ${Math.round((100 * filled) / window)} %` : ""}</span>
    ${window > 0 && html`<meter min="0" max=${window} high=${window * 0.8} value=${filled} aria-label="Context used">${filled}</meter>`}
    <span>${cost(fold.cost)}</span><a href="#/s/${id}/time">Time</a><a href="#/?parent=${id}">Branches</a></header>`;
}

const nodes = new WeakMap(); // by entry

/** An entry's node, the same until the entry changes: Preact skips a node that is the same. */
function nodeOf(entry, session, id, back) {
  const kept = nodes.get(entry);
  if (kept?.v === entry.v && kept.session === session && !kept.back === !back) return kept.node;
  const node = html`<${Entry} key=${entry.key} entry=${entry} v=${entry.v} session=${session} id=${id} back=${back} />`;
  nodes.set(entry, { v: entry.v, session, back, node });
  return node;
}

/** The newest entries, and older ones on demand. It stays at the end unless scrolled up. */
function Entries({ fold, session, id, back }) {
  const [shown, setShown] = useState(SHOWN);
  const ref = useRef();
  const atEnd = useRef(true);
  const before = useRef(null); // height before older entries are added above
  useLayoutEffect(() => {
    const el = ref.current;
    if (before.current !== null) {
      el.scrollTop += el.scrollHeight - before.current;
      before.current = null;
    } else if (atEnd.current) {
      el.scrollTop = el.scrollHeight;
    }
  });
  const top = useRef(0);
  const scrolled = () => {
    const el = ref.current;
    if (!el) return;
    // Entries get their height when they become visible, which moves the end away. Only the user scrolls up.
    if (el.scrollHeight - el.scrollTop - el.clientHeight < 60) atEnd.current = true;
    else if (el.scrollTop < top.current) atEnd.current = false;
    top.current = el.scrollTop;
  };
  useEffect(() => {
    const el = ref.current;
    const observer = new ResizeObserver(() => atEnd.current && (el.scrollTop = el.scrollHeight));
    observer.observe(el); // the content below it grows, too
    if (el.querySelector(".list")) observer.observe(el.querySelector(".list"));
    return () => observer.disconnect();
  }, [fold.entries.length > 0]);
  const all = fold.entries;
  const from = Math.max(0, all.length - shown);
  const earlier = () => {
    before.current = ref.current.scrollHeight;
    setShown(shown + SHOWN);
  };
  return html`<div class="entries" ref=${ref} onScroll=${scrolled} tabindex="0" role="region" aria-label="Conversation of ${id}">
    ${from > 0 && html`<button class="earlier" onClick=${earlier}>Show ${Math.min(SHOWN, from)} earlier of ${from}</button>`}
    ${all.length === 0 && html`<p class="empty">No messages yet.</p>`}
    ${all.length > 0 && html`<div class="list" role="feed" aria-busy=${fold.streaming !== null}>${all.slice(from).map((entry) =>
      nodeOf(entry, session, id, back))}</div>`}</div>`;
}

const WHERE = { prompts: "runs later", interrupt: "runs next", steering: "steers", follow_up: "follows up" };

/** The queued inputs, each of which can be withdrawn. */
function Queue({ fold, session }) {
  if (fold.queue.length === 0) return null;
  return html`<ul class="queue" role="list" aria-label="What waits">${fold.queue.map((q) => html`<li key=${q.id} class="card"><span class="tag">${WHERE[q.where] ?? q.where}</span>
    <bdi>${visible(q.text || q.id)}</bdi><button aria-label="Withdraw" onClick=${() => doing("Withdraw", () => session.do("cancel_input", { inputId: q.id }))}>×</button></li>`)}</ul>`;
}
