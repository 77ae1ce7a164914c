// The fold of a session's events and updates into the shown state: a list of entries, the run, and what waits. It is pure:
// the same events give the same state, so the state at any event is the fold of the events up to it. Each entry has a
// version v that grows when the entry changes.

import { stringify } from "./client/numbers.js";
import { count, json, REASON } from "./format.js";
import { inWords, senderOf } from "./subagents.js";

const INPUTS = new Set(["prompt", "steer", "follow_up", "subagent_prompt", "subagent_result"]);

const COMPACTED = { manual: "on request", threshold: "because it was nearly full", overflow: "because it was too long" };

export class Fold {
  seq = 0;
  entries = [];
  run = null; // {id, seq, started, turns}
  streaming = null; // the entry of the reply that is being streamed
  queue = []; // [{id, where, kind, text}]
  commands = new Map(); // {kind, state, text, code, reason} by id
  waiting = new Map(); // calls that wait for approval, by call
  summing = null; // the note of the summary in progress
  children = new Map(); // sub-agents at work, by call
  config = {};
  cost = 0;
  tokens = 0; // used so far
  context = 0; // tokens of the context at the newest reply
  lastEnd = null;

  #messages = new Map(); // entries by message id
  #calls = new Map(); // by call: "c9"
  #open = []; // tool calls of replies that have not started yet
  #last = new Map(); // the newest call by the model's id
  #path = []; // ids of the messages in the model's context, of those not shown and of summaries, too

  apply({ event, update }) {
    if (update) this.#update(update);
    else if (event.seq > this.seq) {
      this.seq = event.seq;
      try {
        this[`on_${event.type}`]?.(event, event.data);
      } catch (err) { // the events behind it are shown all the same
        this.#note(event, "bad", `Event ${event.seq}, ${event.type}, cannot be shown`, err.message);
      }
    }
    return this;
  }

  #add(entry) {
    this.entries.push({ v: 0, ...entry });
    return this.entries.at(-1);
  }

  #note(e, tone, title, text, more) {
    this.#add({ key: `e${e.seq}`, kind: "note", seq: e.seq, time: e.time, tone, title, text, ...more });
  }

  // Runs.

  on_agent_start(e, d) {
    if (d.config) this.config = d.config;
    this.run = { id: e.runId, seq: e.seq, started: e.time, turns: 0, command: e.correlationId };
    if (d.errorMessage) this.#note(e, "bad", "The run could not be set up", d.errorMessage);
  }

  on_turn_start() {
    if (this.run) this.run.turns++;
  }

  on_agent_end(e, d) {
    this.run = null;
    this.streaming = null;
    this.waiting.clear();
    for (const call of this.#calls.values()) {
      if (call.state === "running" || call.state === "waiting") this.#touch(call, { state: "lost" });
    }
    this.#open = [];
    const bad = d.terminationReason === "error" || d.terminationReason?.startsWith("timeout") || d.terminationReason?.startsWith("idle");
    this.lastEnd = { seq: e.seq, bad, ...d };
    this.#add({
      key: `e${e.seq}`, kind: "end", seq: e.seq, time: e.time, tone: bad ? "bad" : "quiet", reason: REASON[d.terminationReason] ??
        d.terminationReason, text: d.errorMessage, turns: d.turns, usage: d.usage, durationMs: d.durationMs,
    });
  }

  on_run_resumed(e, d) {
    this.#note(e, "warn", "Taken over by another runner", d.reason);
  }

  // Messages.

  on_message_start(e, d) {
    if (d.role === "toolResult") return;
    const entry = this.#add({
      key: d.messageId, kind: "message", role: d.role, seq: e.seq, time: e.time, blocks: [], streaming: d.role === "assistant",
      model: d.model && { provider: d.provider, id: d.model },
    });
    this.#messages.set(d.messageId, entry);
    if (d.role === "assistant") this.streaming = entry;
  }

  on_message_end(e, d) {
    this.#message(e, d.messageId, d.message, d);
  }

  #message(e, id, m, d = {}) {
    this.#path.push(id);
    if (m.role === "toolResult") {
      const call = this.#open.find((c) => c.toolCallId === m.toolCallId) ?? this.#last.get(m.toolCallId);
      if (call && !call.result) this.#touch(call, { state: "done", result: m, isError: m.isError });
      this.#open = this.#open.filter((c) => c !== call);
      return;
    }
    let entry = this.#messages.get(id);
    if (!entry && m.role === "custom" && m.display === false) return; // it is for the model only
    if (!entry) {
      entry = this.#add({ key: id, kind: "message", role: m.role, seq: e.seq, time: e.time, blocks: [] });
      this.#messages.set(id, entry);
    }
    const c = Array.isArray(m.content) || typeof m.content === "string" ? m.content : json(m);
    const blocks = typeof c === "string" ? [{ type: "text", text: c }] : c.filter((b) => b?.type);
    if (!["user", "assistant"].includes(m.role)) Object.assign(entry, { role: "custom", custom: `${m.customType ?? m.role}` });
    if (m.role === "user") entry.from = senderOf(e.causationId);
    entry.blocks = blocks.map((b) => (b.type === "toolCall" ? { ...b, call: this.#newCall(entry, b) } : b));
    if (d.interrupted) this.#withdraw(entry);
    Object.assign(entry, { streaming: false, interrupted: d.interrupted, failure: d.failure, error: m.errorMessage,
      stopReason: m.stopReason, durationMs: d.durationMs, usage: m.usage });
    entry.v++;
    if (this.streaming === entry) this.streaming = null;
    if (m.role === "assistant" && m.usage && !d.interrupted) {
      this.cost += m.usage.cost?.total ?? 0;
      this.tokens += m.usage.totalTokens ?? 0;
      if (!d.failure && m.usage.totalTokens) this.context = m.usage.totalTokens;
    }
  }

  /** Shows the messages of a transcript, the answer of a query, instead of events. */
  recall(messages) {
    for (const { id, message } of messages) if (message) this.#message({ seq: Number(id.slice(1)) || 0 }, id, message);
    return this;
  }

  #newCall(entry, b) {
    const call = { toolCallId: b.id, toolName: b.name, args: b.arguments, state: "asked", entry };
    this.#open.push(call);
    return call;
  }

  #touch(call, changes) {
    Object.assign(call, changes);
    call.v = (call.v ?? 0) + 1;
    call.entry.v++;
  }

  on_session_branched(e, d) {
    this.#note(e, "quiet", `Copy of session ${d.session} up to event ${d.seq}`, "", { href: `#/s/${d.session}/e/${d.seq}`, of: d.session });
    (d.messages ?? []).forEach((m, i) => this.#message(e, `b${e.seq}.${i}`, m));
    this.cost = this.tokens = 0; // its parent's
    this.#open = [];
  }

  // The tree.

  on_leaf(e, d) {
    const kept = d.keep ? this.#path.lastIndexOf(d.keep) + 1 : 0;
    this.#away(this.#path.splice(kept), true);
    for (const { id, message } of d.entries ?? []) {
      if (this.#messages.has(id)) this.#path.push(id);
      else this.#message(e, id, message);
    }
    if (d.summary) this.#path.push(`e${e.seq}`);
    this.#away(this.#path, false);
    this.summing = null;
    this.#note(e, "quiet", d.summary ? "Moved back, with a summary of the branch that was left" : "Moved back", d.summary?.summary);
  }

  #away(ids, away) {
    for (const entry of ids.map((id) => this.#messages.get(id))) {
      if (!entry || (entry.away ?? false) === away) continue;
      entry.away = away;
      entry.v++;
    }
  }

  on_label(e, d) {
    const entry = this.#messages.get(d.targetId);
    if (!entry) return;
    entry.label = d.label;
    entry.v++;
  }

  on_session_info(e, d) {
    this.name = d.name;
  }

  on_custom_message(e, d) {
    this.#message(e, `e${e.seq}`, { ...d, role: "custom" });
  }

  on_transcript_replaced(e, d) {
    this.#note(e, "warn", "The transcript was replaced", "");
    (d.messages ?? []).forEach((m, i) => this.#message(e, `b${e.seq}.${i}`, m));
  }

  // Summaries.

  #summing(e, title) {
    this.#note(e, "quiet", title, "");
    this.summing = this.entries.at(-1);
  }

  /** Adds the outcome of a summary to the entry at which it started. */
  #summed(changes) {
    if (this.summing) Object.assign(this.summing, changes, { v: this.summing.v + 1 });
    this.summing = null;
  }

  on_compaction_start(e, d) {
    this.#left(d.messageId);
    this.#summing(e, `Compacting the context of ${count(d.tokensBefore)} tokens …`);
  }

  on_compaction_end(e, d) {
    const why = COMPACTED[d.reason] ?? d.reason;
    if (d.errorMessage) {
      this.#summed({ tone: d.aborted ? "quiet" : "bad", title: d.aborted ? "The compaction was cancelled" : "The compaction failed", text: d.errorMessage });
      return;
    }
    if (d.tokensAfter) this.context = d.tokensAfter;
    const kept = this.#path.lastIndexOf(d.firstKeptEntryId);
    this.#path.splice(kept < 0 ? this.#path.length : kept, 0, `e${e.seq}`);
    this.#summed({ title: `Compacted, ${why}: ${count(d.tokensBefore)} tokens, then ${count(d.tokensAfter)}${d.fromHook ? ", by a service" : ""}`, text: d.summary });
  }

  on_branch_summary_start(e) {
    this.#summing(e, "Summarizing the branch that is left …");
  }

  on_branch_summary_end(e, d) {
    this.#summed({ tone: d.aborted ? "quiet" : "bad", title: d.aborted ? "The summary was cancelled" : "The summary failed", text: d.errorMessage });
  }

  on_summary_end(e, d) {
    this.cost += d.message?.usage?.cost?.total ?? 0;
    this.tokens += d.message?.usage?.totalTokens ?? 0;
  }

  // Tool calls.

  on_tool_execution_start(e, d) {
    let call = this.#open.find((c) => c.toolCallId === d.toolCallId);
    this.#open = this.#open.filter((c) => c !== call);
    if (!call) {
      const entry = this.#add({ key: `e${e.seq}`, kind: "message", role: "assistant", seq: e.seq, time: e.time, blocks: [] });
      call = { toolCallId: d.toolCallId, toolName: d.toolName, entry };
      entry.blocks = [{ type: "toolCall", call }];
    }
    const key = `c${e.seq}`;
    this.#touch(call, { key, seq: e.seq, args: d.args, started: e.time, state: "running" });
    this.#calls.set(key, call);
    this.#last.set(d.toolCallId, call);
  }

  on_tool_execution_end(e, d) {
    const call = this.#calls.get(d.call) ?? this.#last.get(d.toolCallId);
    this.waiting.delete(d.call);
    if (call) {
      this.#touch(call, { state: "done", result: d.result, isError: d.isError, durationMs: d.durationMs, worker: d.worker, partial: undefined,
        endSeq: e.seq });
    }
  }

  on_approval_requested(e, d) {
    const a = { ...d, seq: e.seq, time: e.time };
    this.waiting.set(d.call, a);
    const call = this.#calls.get(d.call);
    if (!call) return;
    this.#touch(call, { state: "waiting", approval: a });
    this.#executes(call, d.args);
  }

  /** Records the arguments that a call is executed with if they differ from the model's. */
  #executes(call, args) {
    if (args === undefined || stringify(args) === stringify(call.args)) return;
    this.#touch(call, { said: call.said ?? call.args, args });
  }

  on_approval_resolved(e, d) {
    this.waiting.delete(d.call);
    const call = this.#calls.get(d.call);
    if (!call) return;
    this.#touch(call, { state: "running", approval: { ...call.approval, answer: { ...d, time: e.time } } });
    if (d.args) this.#touch(call, { asked: call.args, args: d.args });
  }

  on_hook_decision(e, d) {
    const call = this.#calls.get(d.call);
    if (call) this.#executes(call, d.args);
    if (d.ask && !d.failures) return; // what it asks is shown
    const what = d.block ? "blocked" : d.ask ? "requests approval" : d.handled ? "handled the input" : d.changed?.length ? `changed ${d.changed.join(", ")}`
      : d.args ? "changed the arguments" : "decided";
    const title = `Hook ${d.hook}${d.by ? ` of ${d.by}` : ""} ${what}`;
    const failures = (d.failures ?? []).map((f) => `${f.service}: ${f.error}`).join("\n");
    const text = [d.reason, failures].filter(Boolean).join("\n");
    if (call) this.#touch(call, { decisions: [...(call.decisions ?? []), { title, text }] });
    else this.#note(e, d.block ? "bad" : "quiet", title, text);
  }

  // Sub-agents.

  #child(d, changes) {
    const call = this.#calls.get(d.call);
    if (call) this.#touch(call, { child: { ...call.child, session: d.session, ...changes } });
  }

  on_subagent_start(e, d) {
    this.children.set(d.call, d.session);
    this.#child(d, { name: d.name, background: d.background, state: "works" });
  }

  on_subagent_abort(e, d) {
    this.#child(d, { state: "stops" });
  }

  on_subagent_end(e, d) {
    this.children.delete(d.call);
    this.cost += d.usage?.cost?.total ?? 0;
    this.tokens += d.usage?.totalTokens ?? 0;
    this.#child(d, { state: "ended", result: d });
  }

  on_subagent_report(e, d) {
    this.#note(e, d.undelivered ? "bad" : "quiet", inWords(e), "", { href: `#/s/${d.session}/e/${d.call.slice(1)}` });
  }

  // Retries.

  on_auto_retry_start(e, d) {
    this.#left(d.messageId);
    this.#note(e, "warn", `Retried, attempt ${d.attempt} of ${d.maxAttempts}, after ${d.delayMs / 1000} s`, d.errorMessage);
  }

  on_auto_retry_end(e, d) {
    if (!d.success) this.#note(e, "bad", "Gave up retrying", d.finalError);
  }

  on_model_fallback(e, d) {
    this.#left(d.messageId);
    this.#note(e, "warn", `Continues with ${d.to?.provider}/${d.to?.id}`, d.errorMessage ?? d.reason);
  }

  /** Drops the calls of a reply that is not in the transcript: they never start. */
  #withdraw(entry) {
    this.#open = this.#open.filter((c) => c.entry !== entry);
  }

  #left(id) {
    const entry = this.#messages.get(id);
    this.#withdraw(entry);
    if (entry) {
      entry.left = true;
      entry.v++;
    }
  }

  on_budget_warning(e, d) {
    const used = d.maxCost ? `$${d.cost} of $${d.maxCost}` : `${d.tokens} of ${d.maxTokens} tokens`;
    this.#note(e, "warn", `The budget of the ${d.scope} is nearly used up`, used);
  }

  on_error(e, d) {
    this.#note(e, "bad", `Error ${d.code ?? ""}`, d.message);
  }

  // Commands.

  on_command_accepted(e, d) {
    const text = d.data?.text ?? "";
    if (d.kind === "subagent_prompt") this.name = d.data?.name;
    if (d.kind === "subagent_prompt" || d.kind === "subagent_abort") {
      const { session, call } = d.data?.parent ?? {};
      this.#note(e, "quiet", inWords(e), "", session && { href: `#/s/${session}/e/${call?.slice(1)}`, of: d.kind === "subagent_prompt" ? session : undefined });
    }
    this.commands.set(d.commandId, { kind: d.kind, state: d.queue ? "waits" : "accepted", text, queue: d.queue, time: e.time });
    if (d.queue && INPUTS.has(d.kind)) this.queue.push({ id: d.commandId, kind: d.kind, where: d.queue, text });
  }

  #settle(d, state, more) {
    this.commands.set(d.commandId, { ...this.commands.get(d.commandId), kind: d.kind, state, ...more });
    this.queue = this.queue.filter((q) => q.id !== d.commandId);
  }

  on_command_applied(e, d) {
    this.#settle(d, "applied");
    if (d.kind.startsWith("set_")) this.#note(e, "quiet", `Changed ${d.kind.slice(4).replaceAll("_", " ")}`, "");
  }

  on_command_rejected(e, d) {
    this.#settle(d, "rejected", { code: d.code, reason: d.reason });
    this.#note(e, "bad", `Refused ${d.kind.replaceAll("_", " ")} (${d.code})`, d.reason);
  }

  on_command_superseded(e, d) {
    this.#settle(d, "superseded");
  }

  on_command_withdrawn(e, d) {
    this.#settle(d, "withdrawn");
  }

  on_queue_update(e, d) {
    const left = new Set([...(d.prompts ?? []), ...(d.steering ?? []), ...(d.followUp ?? [])]);
    this.queue = this.queue.filter((q) => left.has(q.id) || (q.where === "prompts" && d.prompts === undefined) || q.where === "interrupt");
  }

  // Updates.

  #update(u) {
    if (u.type === "tool_execution_update") {
      const call = this.#calls.get(u.data.call ?? `c${u.event}`);
      if (call && call.state !== "done") this.#touch(call, { partial: u.data.partialResult });
      return;
    }
    const entry = this.#messages.get(u.data.messageId);
    if (!entry?.streaming) return;
    for (const s of u.data.assistantMessageEvents) {
      const i = s.contentIndex ?? 0;
      const kind = s.type.slice(0, s.type.indexOf("_"));
      if (!["text", "thinking", "toolcall"].includes(kind)) continue;
      const b = (entry.blocks[i] ??= kind === "toolcall"
        ? { type: "toolCall", id: s.id, name: s.toolName, raw: "" } : { type: kind, [kind]: "" });
      if (kind === "toolcall") {
        if (s.toolName) b.name = s.toolName;
        if (s.delta) b.raw += s.delta;
      } else if (s.delta !== undefined) {
        b[kind] += s.delta;
      } else if (s.content !== undefined) {
        b[kind] = s.content;
      }
    }
    entry.v++;
  }
}
