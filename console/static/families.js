// Families as trees: a session that comes from another, as a branch or as a sub-agent, stands below it. It is pure.

import { byTime } from "./format.js";

const URGENT = ["waiting_for_approval", "damaged", "failed", "running", "waiting_for_tools"];

/**
 * The rows of a list as trees. list has sessions, the newest first, which byId has by their ids; a family stands where its
 * newest member does. Of a family a row is {s, depth, size, folded, state}: size is how many stand below the session;
 * where they are folded away, state is the most urgent of theirs. A session without one, or whose parent is not in the
 * list, is its own row, since there are many of these ({@link rowOf}).
 */
export function families(list, byId, folded = new Set()) {
  const children = new Map(); // by the parent's id
  const parents = new Map(); // of those whose parent is in the list
  for (const s of list) {
    const parent = s.parent && byId.get(s.parent.session);
    if (!parent || parent === s) continue;
    parents.set(s, parent);
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(s);
  }
  if (parents.size === 0) return list;
  for (const of of children.values()) of.sort((a, b) => a.parent.seq - b.parent.seq || byTime(a.created, b.created));
  const rows = [];
  const seen = new Set();
  for (const s of list) {
    if (s.parent && parents.has(s)) family(root(s, parents));
    else if (children.has(s)) family(s);
    else rows.push(s);
  }
  function family(top) {
    if (!seen.has(top)) below(top, 0);
  }
  /** Adds a session and what stands below it; returns its row. */
  function below(s, depth) {
    seen.add(s);
    const row = { s, depth, size: 0, folded: folded.has(s.session) };
    const at = rows.push(row);
    for (const child of children.get(s) ?? []) if (!seen.has(child)) row.size += 1 + below(child, depth + 1).size;
    if (!row.folded) return row;
    const states = new Set(rows.splice(at).map((r) => r.state ?? r.s.status));
    row.state = URGENT.find((state) => states.has(state));
    return row;
  }
  return rows;
}

/** A row of the list with all that a row of a family has. */
export const rowOf = (r) => (r.s ? r : { s: r, depth: 0, size: 0 });

/** The oldest known ancestor. Logs that name each other in a circle have one all the same. */
function root(s, parents) {
  const path = new Set([s]);
  for (let up = parents.get(s); up && !path.has(up); up = parents.get(up)) path.add((s = up));
  return s;
}
