// An entry of a conversation.

import { clock, cost, count, duration, many, model } from "../format.js";
import { html } from "../html.js";
import { Component, useEffect, useState } from "../vendor/preact.js";
import { Approval } from "./approval.js";
import { Child } from "./child.js";
import { Guard } from "./guard.js";
import { Content, Diff, Json, Picture, Text } from "./text.js";

export const Entry = (props) => html`<${Guard}><${Shown} ...${props} /></${Guard}>`;

/** It is rendered again when its version changes. */
class Shown extends Component {
  shouldComponentUpdate(next) {
    return next.entry !== this.props.entry || next.entry.v !== this.shown || next.session !== this.props.session || !next.back !== !this.props.back;
  }

  render({ entry, session, id, back }) {
    this.shown = entry.v;
    const at = html`<a class="at" href="#/s/${id}/e/${entry.seq}" title="Event ${entry.seq}">${clock(entry.time)}</a>`;
    if (entry.kind === "note") {
      return html`<article class="note ${entry.tone}"><header>${entry.href ? html`<a href=${entry.href}>${entry.title}</a>` : entry.title}
        ${entry.of && html` <a href="#/s/${entry.of}/with/${id}">Side by side</a>`} ${at}</header>
        ${entry.text && html`<${Text} text=${entry.text} exact />`}</article>`;
    }
    if (entry.kind === "end") {
      return html`<article class="end ${entry.tone}"><header>${entry.reason}: ${many(entry.turns, "turn")}, ${duration(entry.durationMs)},
        ${" "}${count(entry.usage?.totalTokens)} tokens, ${cost(entry.usage?.cost?.total)} ${at}</header>
        ${entry.text && html`<${Text} text=${entry.text} exact />`}</article>`;
    }
    const who = entry.from?.role ?? { user: "You", assistant: model(entry.model) || "Model" }[entry.role] ?? `custom ${entry.custom ?? ""}`;
    return html`<article class="message ${entry.role} ${entry.left || entry.interrupted || entry.away ? "left" : ""}" aria-label=${who} aria-busy=${entry.streaming}>
      <header><span class="who">${who}</span>${entry.left && html`<span class="tag">taken back</span>`}
        ${entry.away && html`<span class="tag">on another branch</span>`}${entry.label && html`<span class="tag"><bdi>${entry.label}</bdi></span>`}
        ${back && entry.role === "user" && !entry.away && html`<button class="fold" title="Goes back to before this message" onClick=${() => back(entry.key)}>
          Say it anew</button>`}
        ${entry.interrupted && html`<span class="tag">cut off</span>`}${entry.streaming && html`<span class="tag live">streaming</span>`} ${at}</header>
      ${entry.blocks.map((b, i) => (b ? html`<${Block} key=${i} b=${b} entry=${entry} session=${session} id=${id} />` : null))}
      ${entry.error && html`<p class="problem"><${Text} text=${entry.error} exact /></p>`}</article>`;
  }
}

function Block({ b, entry, session, id }) {
  switch (b.type) {
    case "text":
      return b.text ? html`<${Text} text=${b.text} live=${entry.streaming} long=${entry.role === "assistant" && b.text.length < 20_000} />` : null;
    case "thinking":
      return html`<details class="thinking" open=${entry.streaming}><summary>${entry.streaming ? "Thinking …" : "Thoughts"}</summary>
        <${Text} text=${b.redacted ? "(hidden by the vendor)" : b.thinking ?? ""} live=${entry.streaming} /></details>`;
    case "image":
      return html`<${Picture} block=${b} />`;
    case "toolCall":
      return html`<${Call} b=${b} call=${b.call} session=${session} id=${id} />`;
  }
  return html`<${Json} value=${b} />`;
}

const STATES = { asked: "requested", running: "running", waiting: "waits for approval", done: "done", lost: "without a result" };

/** Longer than the time between two updates. Updates are kept for a minute. */
const LATE = 5000;
const KNOWN = 60_000;

/** The state of a call. A call without an update waits for a worker. */
function Standing({ call, text }) {
  const silent = call?.state === "running" && !call.partial && !call.child;
  const [late, setLate] = useState(false);
  useEffect(() => {
    setLate(false);
    if (!silent || Date.now() - Date.parse(call.started) > KNOWN) return undefined;
    const timer = setTimeout(() => setLate(true), LATE);
    return () => clearTimeout(timer);
  }, [silent]);
  return html`<span class="tag" title=${late ? "No worker has reported that it has begun the call" : undefined}>${late ? "waiting for a worker" : text}</span>`;
}

/** The summary of a call in one line. */
function subject(args) {
  const value = args && (args.command ?? args.path ?? args.pattern ?? args.query ?? Object.values(args).find((v) => typeof v === "string"));
  return typeof value === "string" ? value.split("\n", 1)[0].slice(0, 200) : "";
}

/** Reports whether a difference shows all of a replacement. */
const isEdit = (e) => typeof e?.oldText === "string" && typeof e?.newText === "string" && Object.keys(e).length === 2;

/** All arguments of a call: replacements as differences, and the other arguments. */
function Arguments({ args, plain }) {
  if (plain || !Array.isArray(args?.edits) || !args.edits.every(isEdit)) return html`<${Json} value=${args} exact />`;
  const { edits, ...others } = args;
  const signed = (text, sign) => text.split("\n").map((l) => sign + l);
  return html`<${Json} value=${others} exact />${edits.map((e) =>
    html`<${Diff} text=${[...signed(e.oldText, "-"), ...signed(e.newText, "+")].join("\n")} />`)}`;
}

function Call({ b, call, session, id }) {
  const args = call?.args ?? b.arguments;
  const state = call ? (call.state === "done" && call.isError ? "failed" : STATES[call.state]) : "being written";
  const result = call?.result ?? (call?.partial?.content?.length ? call.partial : undefined);
  return html`<section class="call ${call?.state ?? "asked"} ${call?.isError ? "bad" : ""}" aria-label="Call of ${b.name ?? call?.toolName}">
    <header><span class="tool">${b.name ?? call?.toolName}</span><bdi class="subject">${subject(args)}</bdi><${Standing} call=${call} text=${state} />
      ${call?.durationMs !== undefined && html`<span class="quiet">${duration(call.durationMs)}</span>`}
      ${call?.worker && html`<span class="quiet" title="The worker">${call.worker}</span>`}
      ${call?.seq && html`<a class="at" href="#/s/${id}/e/${call.seq}">${clock(call.started)}</a>`}</header>
    ${(call?.decisions ?? []).map((d) => html`<p class="note quiet">${d.title}${d.text ? `: ${d.text}` : ""}</p>`)}
    ${call?.child && html`<${Child} child=${call.child} session=${session} id=${id} />`}
    ${call?.approval && html`<${Approval} a=${call.approval} session=${session} />`}
    ${call?.said && html`<details><summary>Arguments, as the model wrote them</summary><${Json} value=${call.said} exact /></details>`}
    ${call?.asked && html`<details><summary>Arguments that were asked about</summary><${Json} value=${call.asked} exact /></details>`}
    <details open=${!call || call.state !== "done"}><summary>${call?.asked ? `Arguments, changed by ${call.approval.answer.by}`
      : call?.said ? "Arguments, as they are executed" : "Arguments"}</summary>
      ${args === undefined ? html`<${Text} text=${b.raw ?? ""} mono live exact />` : html`<${Arguments} args=${args} plain=${call?.result?.details?.diff} />`}</details>
    ${result && html`<div class="result" aria-label=${call.result ? "Result" : "Progress"}><${Content} content=${result.content} details=${result.details}
      live=${!call.result} /></div>`}</section>`;
}
