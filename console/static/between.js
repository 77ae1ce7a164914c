// The differences between two states of a session. It is pure.

import { cost, count, json } from "./format.js";

const MOST = 300; // characters of a value

const short = (value) => {
  const text = value === undefined ? "none" : json(value);
  return text.length > MOST ? `${text.slice(0, MOST)} …` : text;
};

/**
 * The differences between two folds of a session, the first of them of fewer events: values, each [name, before, after],
 * and new or changed entries, each {entry, isNew}. Tools are compared by name.
 */
export function difference(a, b) {
  const about = (f) => ({
    run: f.run?.id ?? "none", turn: f.run?.turns ?? 0, cost: cost(f.cost), context: count(f.context), tokens: count(f.tokens), messages: f.entries.length,
    name: f.name ?? "", "what waits": f.queue.map((q) => `${q.where}: ${q.text || q.id}`), "waits for approval": [...f.waiting.keys()],
    "sub-agents at work": [...f.children].map(([call, session]) => `${call}: ${session}`),
    "ended": f.lastEnd?.terminationReason ?? "",
    ...Object.fromEntries(Object.entries(f.config).map(([k, v]) => [`config: ${k}`, k === "tools" ? v?.map((t) => t.name) : v])),
  });
  const [x, y] = [about(a), about(b)];
  const values = [...new Set([...Object.keys(x), ...Object.keys(y)])].map((k) => [k, short(x[k]), short(y[k])]).filter(([, p, q]) => p !== q);
  const before = new Map(a.entries.map((e) => [e.key, e.v]));
  const entries = b.entries.filter((e) => before.get(e.key) !== e.v).map((entry) => ({ entry, isNew: !before.has(entry.key) }));
  return { values, entries };
}
