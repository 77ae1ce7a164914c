// The problems of a deployment, worst first. It is pure.

import { count, cost, many } from "./format.js";

/** The name of the queue of a tool's calls. */
export const queueOf = (t) => [t.name, ...(t.version || t.workspace ? [t.version ?? ""] : []), ...(t.workspace ? [t.workspace] : [])].join("=");

/** How much of a budget is used: the shares of tokens and of cost, and the larger one as share. */
export function used({ budget, spent }) {
  if (!budget || !spent) return undefined;
  const tokens = budget.maxTokens > 0 ? spent.tokens / budget.maxTokens : 0;
  const money = budget.maxCost > 0 ? spent.cost / budget.maxCost : 0;
  return { share: Math.max(tokens, money), warn: budget.warnShare || 0.8 };
}

/** A budget for people: the amount spent and the limit. */
export function budgetText({ budget, spent, spentError }) {
  if (!budget) return "";
  const of = (have, most, shown) => (most > 0 ? `${spent ? shown(have) : "?"} of ${shown(most)}` : "");
  const parts = [of(spent?.tokens, budget.maxTokens, (n) => `${count(n)} tokens`), of(spent?.cost, budget.maxCost, cost)].filter(Boolean);
  return `${parts.join(", ")}${budget.per ? ` a ${budget.per}` : ""}${spentError ? ` (${spentError})` : ""}`;
}

/** Problems, each {part, text, grave}. seen has the answers, {value} or {error}, by part. */
export function problems(seen) {
  const list = [];
  const add = (part, text, grave = false) => list.push({ part, text, grave });
  const of = (part) => seen[part]?.value ?? [];
  for (const [part, { error }] of Object.entries(seen)) if (error) add(part, `${part}: ${error}`);
  if (seen.runners?.value?.length === 0) add("runners", "no runner answers", true);
  for (const r of of("runners")) {
    if (r.ready !== true) add("runners", `runner ${r.id} ${r.ready === false ? "is not ready" : "does not report its state"}`, r.ready === false);
  }
  const served = new Set(of("tools").map(queueOf));
  for (const q of of("calls")) {
    const calls = q.pending + q.atWork;
    if (!served.has(q.name) && calls > 0) add("tools", `${many(calls, "call")} in the queue ${q.name}, which nobody serves`, true);
    else if (q.redelivered > 0) add("tools", `${many(q.redelivered, "call")} delivered again in the queue ${q.name}`);
  }
  if (seen.dead?.value?.count > 0) add("dead", `${many(seen.dead.value.count, "dead letter")}`, true);
  for (const p of of("profiles")) {
    const u = used(p);
    if (u?.share >= 1) add("profiles", `the budget of ${p.name} is used up: ${budgetText(p)}`, true);
    else if (u?.share >= u?.warn) add("profiles", `the budget of ${p.name} is nearly used up: ${budgetText(p)}`);
  }
  if (seen.models?.value?.length > 0 && !of("models").some((m) => m.key)) add("models", "no model has an API key");
  return list.sort((a, b) => b.grave - a.grave);
}
