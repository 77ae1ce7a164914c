// The deployment: runners, workers, queues, dead letters, profiles, models. Problems come first.

import { html } from "../html.js";
import { Guard } from "../parts/guard.js";
import { Text } from "../parts/text.js";
import { count, cost, many, model } from "../format.js";
import { budgetText, problems, queueOf, used } from "../health.js";
import { doing } from "../state.js";
import { useEffect, useState } from "../vendor/preact.js";

const AGAIN = 3000; // ms

const known = (tokens) => (tokens ? count(tokens) : "");

async function look(bus) {
  const parts = {
    runners: () => bus.fleet.runners(), tools: () => bus.tools({ timeout: AGAIN }), calls: () => bus.fleet.queues("AGENT_TOOL"), inbox: () => bus.fleet.queues("AGENT_CMD"),
    dead: () => bus.fleet.dead(), profiles: () => profiles(bus.fleet), models: () => bus.models({ timeout: AGAIN }),
  };
  const seen = await Promise.allSettled(Object.values(parts).map((f) => f()));
  return Object.fromEntries(Object.keys(parts).map((name, i) => [name, seen[i].status === "fulfilled" ? { value: seen[i].value }
    : { error: seen[i].reason.message }]));
}

/** The profiles, with the usage of their budgets if it can be read. */
async function profiles(fleet) {
  const list = await fleet.profiles();
  return Promise.all(list.map(async (p) => (p.budget
    ? { ...p, ...(await fleet.spent(p).then((spent) => ({ spent }), (err) => ({ spentError: err.message }))) } : p)));
}

export function FleetView({ bus }) {
  const [seen, setSeen] = useState(null);
  const [again, ask] = useState(0);
  useEffect(() => {
    let stopped = false;
    let timer;
    const run = async () => {
      const now = await look(bus);
      if (stopped) return;
      setSeen(now);
      timer = setTimeout(run, AGAIN);
    };
    run();
    return () => ((stopped = true), clearTimeout(timer));
  }, [bus, again]);
  if (!seen) return html`<p class="empty">Looking …</p>`;
  const calls = new Map((seen.calls.value ?? []).map((q) => [q.name, q]));
  const served = new Set();
  const tools = (seen.tools.value ?? []).map((t) => {
    const name = queueOf(t);
    served.add(name);
    return { ...t, queue: calls.get(name) ?? { pending: 0, atWork: 0 } };
  });
  const unserved = [...calls.values()].filter((q) => !served.has(q.name) && q.pending + q.atWork > 0);
  const ill = (r) => (r.ready === false ? 0 : 1);
  const done = (what, f) => doing(what, f).then(() => ask(again + 1));
  return html`<section class="page fleet" aria-label="Fleet"><h1>Fleet</h1>
    <${Guard}><${Health} seen=${seen} /></${Guard}>
    <${Part} title="Dead letters" part=${seen.dead} empty="There are none.">${({ list, count: n }) => html`<p class="quiet">${n} in all${list.length < n && `, of which the newest ${list.length} are shown`}</p>
      <ul class="cards" role="list">${list.map((d) => html`<li key=${d.seq} class="card bad"><${Guard}><${Letter} d=${d} bus=${bus} done=${done} /></${Guard}></li>`)}
      </ul>`}</${Part}>
    ${unserved.length > 0 && html`<h2>Queues that nobody serves</h2><ul>${unserved.map((q) => html`<li class="problem">${q.name}: ${q.pending} wait, ${q.atWork} at work</li>`)}</ul>`}
    <${Part} title="Runners" part=${seen.runners} empty="No runner answers.">${(list) => html`<${Table} head=${["id", "state", "model", "partitions", "at work", "sessions", "version"]}
      rows=${[...list].sort((a, b) => ill(a) - ill(b)).map((r) => [r.id, r.ready === undefined ? "no answer" : r.ready ? "ready" : "not ready", r.model,
        r.partitions?.length, r.inFlight, r.sessions, r.version])} />`}</${Part}>
    <${Part} title="Inbox" part=${seen.inbox} empty="There is no inbox.">${(list) => html`<p>${list.reduce((n, q) => n + q.pending, 0)} commands wait,
      ${" "}${list.reduce((n, q) => n + q.atWork, 0)} are at work.</p>`}</${Part}>
    <${Part} title="Tools" part=${{ ...seen.tools, value: tools }} empty="No worker announces a tool.">${(list) => html`<${Table}
      head=${["tool", "version", "workspace", "effect", "calls wait", "at work", "workers"]} rows=${list.map((t) => [t.name, t.version, t.workspace, t.effect ?? "unsafe",
        t.queue.pending, t.queue.atWork, t.workers.join(", ")])} />`}</${Part}>
    <${Part} title="Profiles" part=${seen.profiles} empty="There are none.">${(list) => html`<${Table} head=${["name", "model", "tools", "spent", "description"]}
      rows=${[...list].sort((a, b) => (used(b)?.share ?? 0) - (used(a)?.share ?? 0)).map((p) => [p.name, model(p.model),
        p.tools?.join(", ") ?? "all", html`<${Budget} p=${p} />`, p.description])} />`}</${Part}>
    <${Part} title="Models" part=${seen.models} empty="There are none.">${(list) => html`<${Table} head=${["model", "context", "output", "$/M in", "$/M out", "cached", "written", "key"]}
      rows=${[...list].sort((a, b) => b.key - a.key).map((m) => [`${m.provider}/${m.id}`, known(m.contextWindow), known(m.maxTokens), cost(m.rates?.input), cost(m.rates?.output),
        cost(m.rates?.cacheRead), cost(m.rates?.cacheWrite), m.key ? "yes" : "no"])} />`}</${Part}></section>`;
}

/** A dead letter, with all that would be sent again. */
function Letter({ d, bus, done }) {
  return html`<header><code>${d.message.subject}</code> <span class="quiet">delivered ${many(d.deliveries, "time")}</span></header><p>${d.reason}</p>
    <p class="quiet">${d.to ? html`Would be sent to <code>${d.to}</code> ${d.headers.length > 0 && "with the headers"}`
      : html`Was at <code>${d.subject || "an unknown subject"}</code>. It cannot be sent again: ${d.why}.`}</p>
    ${d.headers?.length > 0 && html`<${Text} text=${d.headers.map((h) => h.join(": ")).join("\n")} mono exact long />`}
    <${Text} text=${d.text} mono exact />
    <div class="answer"><button disabled=${!d.to} onClick=${() => done("Send again", () => bus.fleet.replay(d))}>Send again</button>
    <button class="danger" onClick=${() => done("Discard", () => bus.fleet.discard(d))}>Discard</button></div>`;
}

/** The list of problems, or the message that there are none. */
function Health({ seen }) {
  const list = problems(seen);
  return html`<section aria-label="Health" class="health">${list.length === 0 ? html`<p class="approval ok">Nothing is wrong.</p>`
    : html`<ul role="list">${list.map((p) => html`<li key=${p.text} class=${p.grave ? "problem" : "warn"}>${p.text}</li>`)}</ul>`}</section>`;
}

function Budget({ p }) {
  const u = used(p);
  return html`${budgetText(p)} ${u && html`<meter min="0" max="1" high=${u.warn} value=${Math.min(1, u.share)}
    aria-label="Of the budget of ${p.name}">${Math.round(100 * u.share)} %</meter>`}`;
}

function Part({ title, part, empty, children }) {
  const size = part.value?.count ?? part.value?.length ?? 0;
  return html`<section aria-label=${title}><h2>${title}</h2>${part.error ? html`<p class="problem">${part.error}</p>`
    : size === 0 ? html`<p class="quiet">${empty}</p>` : html`<${Guard}><${Filled} value=${part.value} of=${children} /></${Guard}>`}</section>`;
}

const Filled = ({ value, of }) => of(value);

function Table({ head, rows }) {
  return html`<div class="scroll"><table><thead><tr>${head.map((h) => html`<th scope="col">${h}</th>`)}</tr></thead>
    <tbody>${rows.map((r) => html`<tr>${r.map((v, i) => (i === 0 ? html`<th scope="row">${v}</th>` : html`<td>${v ?? ""}</td>`))}</tr>`)}</tbody></table></div>`;
}
