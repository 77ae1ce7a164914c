// Families as trees: a session that is a branch or a sub-agent of another is shown below it. It is pure.

import { byTime } from "./format.js";

const URGENT = ["waiting_for_approval", "damaged", "failed", "running", "waiting_for_tools"];

/**
 * The rows of a list as trees. list contains sessions, newest first; byId maps their ids to them. A family is placed at the
 * position of its newest member. Its rows are {s, depth, size, folded, state}: size is the number of sessions below s;
 * if they are folded, state is the most urgent of their states. A session without a family, or whose parent is not in the
 * list, is its own row, because there are many of these ({@link rowOf}).
 */
export function families(list, byId, folded = new Set()) {
  const children = new Map(); // by the parent's id
  const parents = new Map(); // of the sessions whose parent is in the list
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
  /** Adds a session and the sessions below it; returns its row. */
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

/** A row of the list with all members of a family's row. */
export const rowOf = (r) => (r.s ? r : { s: r, depth: 0, size: 0 });

/** The oldest known ancestor. It also ends for logs that name each other in a cycle. */
function root(s, parents) {
  const path = new Set([s]);
  for (let up = parents.get(s); up && !path.has(up); up = parents.get(up)) path.add((s = up));
  return s;
}
