// Formatting of values for people.

import { stringify } from "./client/numbers.js";

export const model = (m) => (m ? (m.provider && m.provider !== m.id ? `${m.provider}/${m.id}` : m.id) : "");

export function cost(value) {
  const dollars = Number(value ?? 0);
  if (!dollars) return "$0";
  return dollars < 0.01 ? `$${dollars.toPrecision(2)}` : `$${dollars.toFixed(2)}`;
}

export function count(n = 0) {
  if (n < 1000) return String(n);
  return n < 999_500 ? `${(n / 1e3).toFixed(n < 1e4 ? 1 : 0)}k` : `${(n / 1e6).toFixed(1)}M`;
}

/** A number with its noun, in singular or plural. */
export const many = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

export function bytes(n = 0) {
  return n < 1024 ? `${n} B` : n < 1 << 20 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / (1 << 20)).toFixed(1)} MiB`;
}

export function duration(ms = 0) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min ${seconds % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function ago(time, now = Date.now()) {
  const s = Math.max(0, (now - Date.parse(time)) / 1000);
  if (s < 5) return "now";
  if (s < 60) return `${Math.floor(s)} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ago`;
  return new Date(time).toLocaleDateString();
}

/** Compares times in the servers' format, which has a varying number of fractional digits. */
export function byTime(a, b) {
  const [x, y] = [a, b].map((time) => String(time).replace("Z", ""));
  return x < y ? -1 : x > y ? 1 : 0;
}

/** A key of a waiting call. It differs from the key of the same call in a new session with the same id. */
export const askedKey = (a) => `${a.session}/${a.seq}/${a.digest ?? ""}`;

export const clock = (time) => (time ? new Date(time).toLocaleTimeString([], { hour12: false }) : "");

export const STATUS = {
  running: "running", waiting_for_tools: "waiting for tools", waiting_for_approval: "waiting for approval",
  idle: "at rest", failed: "failed", damaged: "damaged",
};

export const REASON = {
  no_tool_calls: "done", terminate: "ended by a tool", stop_requested: "stopped", max_turns: "turn limit reached", budget: "over budget",
  timeout_48h: "time limit reached", idle_timeout_120s: "the model stopped responding", abort_signal: "aborted", error: "failed",
};

// What is left of n characters once indentation has added its own to a value. It may be too little, and is below 0 after 500 levels.
const spaced = (v, n, depth = 1) => (Object(v) !== v || v instanceof Number ? n
  : Object.values(v).reduce((n, x) => (n < 0 ? n : spaced(x, depth > 500 ? -1 : n - 2 * depth - 2, depth + 1)), n - 2 * depth));

/** JSON, indented unless that makes it longer than four times itself and 4 KiB. */
export function json(value) {
  if (typeof value === "string") return value;
  try {
    const text = stringify(value);
    return text && spaced(value, 3 * text.length + 4096) >= 0 ? stringify(value, 2) : text;
  } catch {
    return "nested too deeply";
  }
}

const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f\u0080-\u009f]/g;
const ANSI = /\u001b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;
// Invisible characters and those that change the direction of text, except joiners, as in the command line.
const UNSEEN = /(?![\u200c\u200d])[\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * Text of models and tools for display: without terminal colours, other control characters as symbols. If exact is set,
 * nothing is left out, and invisible characters and those that change the direction of text are shown by number: a
 * person who approves a text must see exactly what will be executed. A value that is no text is shown as JSON.
 */
export function visible(value, exact = false) {
  const text = typeof value === "string" ? value : json(value) ?? "";
  const lines = text.replace(/\r\n/g, exact ? "\u240d\n" : "\n");
  const shown = (exact ? lines : lines.replace(ANSI, ""))
    .replace(CONTROL, (c) => (c < " " ? String.fromCharCode(0x2400 + c.charCodeAt(0)) : "\u2421"));
  return exact ? shown.replace(UNSEEN, (c) => `\u27e8U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`) : shown;
}

/** JSON to be edited: characters that {@link visible} shows by number or as symbols are escaped, which JSON allows. */
export const editable = (value) => json(value).replace(UNSEEN, escaped).replace(/[\u007f-\u009f]/g, escaped);

const escaped = (c) => Array.from({ length: c.length }, (_, i) => `\\u${c.charCodeAt(i).toString(16).padStart(4, "0")}`).join("");
