// Text of models and tools: text nodes, and long text folded.

import { parse } from "../client/numbers.js";
import { bytes, json, visible } from "../format.js";
import { html } from "../html.js";
import { useMemo, useState } from "../vendor/preact.js";

const LONG = 6000; // characters
const LINES = 24;
const BLOCK = 1000; // characters

/** The part of a text that is shown while it is folded, undefined if all of it is. */
function fold(text, fromEnd) {
  if (text.length <= LONG) {
    let at = -1;
    for (let n = 0; n < LINES; n++) if ((at = text.indexOf("\n", at + 1)) < 0) return undefined;
    if (text.indexOf("\n", at + 1) < 0) return undefined; // folding a single line is not worth it
    if (!fromEnd) return text.slice(0, at);
  }
  if (!fromEnd) return text.slice(0, LONG / 2).split("\n", LINES).join("\n");
  return text.slice(-LONG / 2).split("\n").slice(-LINES).join("\n");
}

/**
 * Plain text. exact shows invisible characters; live shows the end of a text that grows. What {@link html} must not make
 * exact is the property children, and no child.
 */
export function Text({ text, exact = false, live = false, long = false, mono = false, label }) {
  const [open, setOpen] = useState(false);
  const folded = useMemo(() => (long ? undefined : fold(text, live)), [text, live, long]);
  const part = folded === undefined || open ? text : folded;
  const shown = useMemo(() => visible(part, exact), [part, exact]);
  return html`<div class="text ${mono ? "mono" : ""}" dir="auto" aria-label=${label} children=${live ? blocks(folded !== undefined && !open ? `… ${shown}` : shown)
    : shown} />
    ${folded !== undefined && html`<button class="fold" aria-expanded=${open} onClick=${() => setOpen(!open)}>
      ${open ? "Show less" : `Show all ${bytes(text.length)}`}</button>`}`;
}

/** A text that grows, in blocks of whole lines. Full blocks do not change, so a frame lays out only the last one. */
function blocks(text) {
  const list = [];
  for (let at = 0; at <= text.length; ) {
    const end = text.indexOf("\n", at + BLOCK);
    const part = end < 0 ? text.slice(at) : text.slice(at, end);
    list.push(html`<div key=${list.length} children=${part} />`);
    if (end < 0) break;
    at = end + 1;
  }
  return list;
}

/** JSON, or a text that may be JSON, indented. */
export function Json({ value, exact }) {
  const text = useMemo(() => pretty(value), [value]);
  return html`<${Text} text=${text} mono exact=${exact} />`;
}

function pretty(value) {
  if (typeof value !== "string") return json(value) ?? "";
  if (!/^\s*[[{]/.test(value) || value.length > 1 << 20) return value;
  try {
    const text = json(parse(value));
    return dense(text) === dense(value) ? text : value; // a name that is repeated would be lost
  } catch {
    return value;
  }
}

/** JSON without the space between its tokens. */
const dense = (text) => text.replace(/("[^"\\]*(?:\\.[^"\\]*)*")|\s+/g, "$1");

/** A unified diff. */
export function Diff({ text }) {
  const [open, setOpen] = useState(false);
  const lines = text.split("\n");
  const shown = open ? lines : lines.slice(0, 60);
  return html`<div class="diff mono" role="group" aria-label="Difference">${shown.map((l) => html`<div class=${l[0] === "+" ? "added" : l[0] === "-" ? "gone"
    : l.startsWith("@@") ? "place" : ""}>${l || " "}</div>`)}</div>
    ${lines.length > 60 && html`<button class="fold" aria-expanded=${open} onClick=${() => setOpen(!open)}>
      ${open ? "Show less" : `Show all ${lines.length} lines`}</button>`}`;
}

const IMAGES = /^image\/(png|jpeg|gif|webp|avif|bmp)$/; // no SVG, which may contain scripts

export function Picture({ block }) {
  if (!IMAGES.test(block.mimeType)) return html`<p class="quiet">A picture (${block.mimeType}).</p>`;
  return html`<img class="picture" alt="A picture" loading="lazy" src=${`data:${block.mimeType};base64,${block.data}`} />`;
}

/** The content of a tool result, which is what the model reads, and the difference that the tool adds for people. */
export function Content({ content = [], details, live }) {
  return html`${content.map((b, i) => (b.type === "image" ? html`<${Picture} key=${i} block=${b} />`
    : html`<${Text} key=${i} text=${pretty(b.text ?? "")} mono live=${live} />`))}
    ${typeof details?.diff === "string" && details.diff && html`<${Diff} text=${details.diff} />`}`;
}
