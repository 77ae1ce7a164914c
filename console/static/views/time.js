// The time line of a session: events, the state at any of them, differences, and branches.

import { html } from "../html.js";
import { doing, go, replace, useOwned } from "../state.js";
import { difference } from "../between.js";
import { clock, cost, count } from "../format.js";
import { Entry } from "../parts/entry.js";
import { Guard } from "../parts/guard.js";
import { Json } from "../parts/text.js";
import { Fold } from "../fold.js";
import { Followed } from "../session.js";
import { inWords } from "../subagents.js";
import { useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { newId } from "./sessions.js";

const NEAR = 30; // events listed on each side
const SHOWN = 40; // entries of the state

export function TimeView({ bus, id, seq, from }) {
  const followed = useOwned(() => new Followed(bus, id), [bus, id]);
  if (!followed) return null;
  if (followed.error) return html`<p class="problem" role="alert">${followed.error}</p>`;
  if (!followed.loaded) return html`<p class="empty">Reading the session …</p>`;
  if (followed.events.length === 0) return html`<p class="empty">Nothing has happened in ${id}.</p>`;
  return html`<${Time} bus=${bus} id=${id} events=${followed.events} seq=${seq} from=${from} last=${followed.events.length} />`;
}

/** Folds the events up to one, starting from a fold of fewer. */
function foldTo(events, seq, fold = new Fold()) {
  for (let n = fold.seq; n < seq; n++) fold.apply({ event: events[n] });
  return fold;
}

/** The fold of the events up to one. It continues from the previous fold if that has fewer events. */
function useFold(events, seq) {
  const kept = useRef(null);
  const { current: before } = kept;
  return (kept.current = before?.seq <= seq ? foldTo(events, seq, before) : foldTo(events, seq));
}

function Time({ bus, id, events, seq, from, last }) {
  const at = Math.min(Math.max(1, seq || last), last);
  const mark = from > 0 && from <= last ? from : 0;
  const fold = useFold(events, at);
  const to = (n, since = mark) => replace(`#/s/${id}/e/${Math.min(Math.max(1, n), last)}${since ? `?from=${since}` : ""}`);
  const step = useRef(); // of the last render: a key may arrive before the effects run
  step.current = (n) => to(at + n);
  useEffect(() => {
    const pressed = (e) => {
      const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[e.key];
      if (!by || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName)) return;
      e.preventDefault();
      step.current(by);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  const event = events[at - 1];
  const words = inWords(event);
  const list = useRef();
  useEffect(() => {
    const { current: el } = list;
    el.scrollTop = el.querySelector("[aria-current]").offsetTop - el.offsetTop - el.clientHeight / 2;
  }, [at]);
  const fork = async () => {
    const other = newId();
    const done = await doing(`Fork at event ${at}`, () => bus.session(other).branch(id, at).then(() => true));
    if (done) go(`#/s/${id}/with/${other}`);
  };
  return html`<section class="time" aria-label="Session ${id} in time">
    <header class="facts"><h1><a href="#/s/${id}">${id}</a></h1><span role="status">event ${at} of ${last}</span><span>${clock(event.time)}</span>
      <span>${fold.run ? `running, turn ${fold.run.turns}` : "at rest"}</span><span>${cost(fold.cost)}</span><span>context ${count(fold.context)}</span></header>
    <div class="bar"><button aria-label="The event before" disabled=${at === 1} onClick=${() => to(at - 1)}>‹</button>
      <input type="range" aria-label="Event" min="1" max=${last} value=${at} onInput=${(e) => to(Number(e.target.value))} />
      <button aria-label="The next event" disabled=${at === last} onClick=${() => to(at + 1)}>›</button>
      <button class="primary" onClick=${fork}>Fork from here</button>
      <button onClick=${() => to(at, mark === at ? 0 : at)} aria-pressed=${mark === at}>${mark && mark !== at ? `Compare from here, not ${mark}` : "Compare from here"}</button>
      <${Guard}><${Rerun} bus=${bus} id=${id} at=${at} events=${events} now=${fold.config.model} /></${Guard}></div>
    ${mark > 0 && mark !== at && html`<${Guard}><${Between} events=${events} id=${id} from=${Math.min(mark, at)} to=${Math.max(mark, at)} /></${Guard}>`}
    <div class="columns"><nav ref=${list} class="events" aria-label="Events">${events.slice(Math.max(0, at - NEAR), at + NEAR).map((e) => html`<a key=${e.seq} href="#/s/${id}/e/${e.seq}"
      aria-current=${e.seq === at ? "true" : undefined}><span class="quiet">${e.seq}</span> ${e.type} <span class="at">${clock(e.time)}</span></a>`)}</nav>
      <article class="raw" aria-label="Event ${at}"><h2>Event ${at}: ${event.type}</h2>${words && html`<p class="words">${words}</p>`}<${Attributes} e=${event} /><${Json} value=${event.data} exact /></article>
      <div class="entries" role="region" tabindex="0" aria-label="The conversation at event ${at}"><h2>The conversation then</h2>
        ${fold.entries.length > SHOWN && html`<p class="quiet">${fold.entries.length - SHOWN} earlier entries</p>`}
        ${fold.entries.length > 0 && html`<div class="list" role="feed">${fold.entries.slice(-SHOWN).map((entry) =>
          html`<${Entry} key=${entry.key} entry=${entry} v=${entry.v} id=${id} />`)}</div>`}</div></div></section>`;
}

function Attributes({ e }) {
  const { data: _, seq: _seq, ...attributes } = e;
  return html`<dl>${Object.entries(attributes).filter(([, v]) => v !== "").map(([k, v]) => html`<dt>${k}</dt><dd>${v}</dd>`)}</dl>`;
}

/** The differences between the states at two events. */
function Between({ events, id, from, to }) {
  const { values, entries } = useMemo(() => difference(foldTo(events, from), foldTo(events, to)), [events, from, to]);
  const kinds = new Map();
  for (const e of events.slice(from, to)) kinds.set(e.type, (kinds.get(e.type) ?? 0) + 1);
  return html`<section class="between" aria-label="From event ${from} to event ${to}"><h2>From event ${from} to event ${to}</h2>
    <p class="quiet">${[...kinds].map(([k, n]) => `${n} ${k}`).join(", ")}</p>
    ${values.length > 0 && html`<table><thead><tr><th scope="col">what</th><th scope="col">${from}</th><th scope="col">${to}</th></tr></thead>
      <tbody>${values.map(([name, x, y]) => html`<tr key=${name}><th scope="row">${name}</th><td>${x}</td><td>${y}</td></tr>`)}</tbody></table>`}
    ${entries.length > 0 && html`<details><summary>${entries.length} ${entries.length === 1 ? "entry is" : "entries are"} new or changed</summary>
      <div class="list">${entries.slice(-SHOWN).map(({ entry, isNew }) => html`<p class="quiet" key="t${entry.key}">${isNew ? "new" : "changed"}</p>
        <${Entry} key=${entry.key} entry=${entry} v=${entry.v} id=${id} />`)}</div></details>`}</section>`;
}

/** Branches before the run that contains the event, and sends its input to another model. */
function Rerun({ bus, id, at, events, now }) {
  const [models, setModels] = useState(null);
  const start = events.slice(0, at).findLast((e) => e.type === "agent_start");
  const asked = start && events.find((e) => e.seq > start.seq && e.type === "message_end" && e.data?.message?.role === "user");
  if (!asked) return null;
  const load = () => models ?? bus.models().then((list) => setModels(list.filter((m) => m.key)), () => setModels([]));
  const rerun = async (value) => {
    const m = models.find((x) => `${x.provider}/${x.id}` === value);
    const other = newId();
    const done = await doing(`Run again with ${value}`, async () => {
      const s = bus.session(other);
      // The events before the command of the run: a copy of nothing is a new session.
      const before = events.find((e) => e.data?.commandId === start.correlationId && e.type === "command_accepted")?.seq ?? start.seq;
      if (before > 1) await s.branch(id, before - 1);
      await s.set("model", { model: { api: m.api, provider: m.provider, id: m.id } });
      const { content } = asked.data.message;
      const blocks = typeof content === "string" ? [{ type: "text", text: content }] : content;
      const text = blocks.filter((b) => b.type === "text").map((b) => b.text).join("\n");
      const images = blocks.filter((b) => b.type === "image");
      await s.prompt({ ...(text && { text }), ...(images.length && { images }) });
      return true;
    });
    if (done) go(`#/s/${id}/with/${other}`);
  };
  return html`<select aria-label="Run again with another model" onFocus=${load} onChange=${(e) => rerun(e.target.value)}>
    <option selected disabled>Run again with …</option>${(models ?? []).map((m) => html`<option value="${m.provider}/${m.id}">${m.provider}/${m.id}
      ${now?.id === m.id && now?.provider === m.provider ? " (as it was)" : ""}</option>`)}</select>`;
}
