// All sessions: newest first, with search and filters in the URL.

import { html } from "../html.js";
import { VirtualList } from "../parts/virtual.js";
import { families, rowOf } from "../families.js";
import { ago, cost, many, model, STATUS, visible } from "../format.js";
import { SessionList } from "../sessions.js";
import { go, replace, useOwned } from "../state.js";
import { useEffect, useMemo, useRef, useState } from "../vendor/preact.js";

const CHOICES = [["", "all"], ["running,waiting_for_tools", "running"], ["waiting_for_approval", "waiting for approval"], ["idle", "at rest"],
  ["failed,damaged", "failed"]];

/** A new session's id: the time and a random part. */
export function newId() {
  const part = Array.from(crypto.getRandomValues(new Uint8Array(4)), (b) => b.toString(16).padStart(2, "0")).join("");
  return `s-${new Date().toISOString().slice(0, 10).replaceAll("-", "")}-${part}`;
}

export function SessionsView({ bus, query }) {
  const text = query.get("q") ?? "";
  const status = query.get("status") ?? "";
  const profile = query.get("profile") ?? "";
  const parent = query.get("parent") ?? "";
  const flat = query.get("flat") === "1";
  const set = (changes) => {
    const next = new URLSearchParams(query);
    for (const [key, value] of Object.entries(changes)) value ? next.set(key, value) : next.delete(key);
    replace(`#/${next.size ? `?${next}` : ""}`);
  };
  const list = useOwned(() => new SessionList(bus, {
    ...(text && { text }), ...(status && { status: status.split(",") }), ...(profile && { profile }), ...(parent && { parent }),
  }), [bus, text, status, profile, parent]);
  const [folded, setFolded] = useState(new Set());
  const fold = ({ s, size }, away) => {
    if (!(size > 0) || folded.has(s.session) === away) return;
    const next = new Set(folded);
    away ? next.add(s.session) : next.delete(s.session);
    setFolded(next);
  };
  const all = list?.rows;
  const rows = useMemo(() => (flat || !all ? (all ?? []) : families(all, list.byId, folded)), [all, folded, flat]);
  const search = useRef();
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 5000);
    const pressed = (e) => {
      if (e.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName)) {
        e.preventDefault();
        search.current?.focus();
      }
    };
    addEventListener("keydown", pressed);
    return () => (clearInterval(timer), removeEventListener("keydown", pressed));
  }, []);
  return html`<section class="sessions" aria-label="Sessions">
    <form class="bar" role="search" onSubmit=${(e) => e.preventDefault()}>
      <input ref=${search} type="search" aria-label="Search titles and last messages" placeholder="Search ( / )" value=${text}
        onInput=${(e) => set({ q: e.target.value })} />
      <select aria-label="State" value=${status} onChange=${(e) => set({ status: e.target.value })}>${CHOICES.map(([value, name]) =>
        html`<option value=${value} selected=${value === status}>${name}</option>`)}</select>
      <input class="short" aria-label="Profile" placeholder="Profile" value=${profile} onChange=${(e) => set({ profile: e.target.value })} />
      <label><input type="checkbox" checked=${!flat} onChange=${(e) => set({ flat: e.target.checked ? "" : "1" })} /> Families</label>
      ${parent && html`<button type="button" onClick=${() => set({ parent: "" })}>branches of ${parent} ×</button>`}
      <button type="button" class="primary" onClick=${() => go(`#/s/${newId()}`)}>New session</button></form>
    ${list?.error && html`<p class="problem" role="alert">${list.error}</p>`}
    ${list?.partial && html`<p class="problem">The runners are reading the logs; sessions may be missing.</p>`}
    ${list?.loaded && list.rows.length === 0 && html`<p class="empty">${text || status || profile || parent ? "No session matches."
      : "There are no sessions yet."}</p>`}
    ${list && html`<${VirtualList} rows=${rows} height=${64} label="Sessions" more=${list.more} near=${() => list.load()}
      id=${(r) => rowOf(r).s.session} fold=${(r, away) => fold(rowOf(r), away)} row=${(r) => html`<${Row} r=${rowOf(r)} trees=${rows !== all} now=${now} fold=${fold} />`} />`}</section>`;
}

/** A row. It leaves room for the button of a family if the list contains a family. */
function Row({ r, trees, now, fold }) {
  const { s, depth, size } = r;
  const indent = { marginLeft: `${Math.min(depth, 8) * 1.5 + (size > 0 ? 0 : 2.2)}rem` };
  return html`${size > 0 && html`<button class="twig" style=${indent} aria-expanded=${!r.folded} aria-label="${size} below ${s.title || s.session}"
      onClick=${() => fold(r, !r.folded)}>${r.folded ? `▸ ${size}` : "▾"}</button>`}
    <a class="row ${depth > 0 ? "below" : ""}" style=${trees && size === 0 ? indent : undefined} data-depth=${depth} href="#/s/${s.session}">
    <span class="state ${s.status}"><span class="dot" aria-hidden="true"></span>${STATUS[s.status] ?? s.status}</span>
    <span class="title"><bdi>${visible(s.title || s.session)}</bdi>${s.parent && html` <span class="tag" title="Of ${s.parent.session}, event ${s.parent.seq}">
        ${s.parent.callId ? "sub-agent" : "branch"}${depth === 0 ? ` of ${s.parent.session}` : ""}</span>`}
      ${s.queued > 0 && html` <span class="tag">${s.queued} queued</span>`}${r.state && html` <span class="tag">below: ${STATUS[r.state]}</span>`}</span>
    <span class="last"><bdi>${visible(s.error || s.lastMessage || "")}</bdi></span>
    <span class="facts"><span>${model(s.model)}</span><span>${many(s.turns, "turn")}</span><span>${cost(s.usage?.cost?.total)}</span>
      <time datetime=${s.lastActivity}>${ago(s.lastActivity, now)}</time></span></a>`;
}
