// Notifications of the browser about calls that wait for approval: for who has asked for them, while the page is not in
// front. They name the session and the tool, and nothing that a model wrote.

import { go } from "./state.js";

const KEPT = "loopbus.notify";
const FRESH = 2000; // ms in which the page learns what has waited before it was opened, which is no news

/** "on", "off", or "never" where the browser does not show any. */
export function notifying() {
  if (!("Notification" in globalThis) || Notification.permission === "denied") return "never";
  return localStorage.getItem(KEPT) === "on" && Notification.permission === "granted" ? "on" : "off";
}

/** Turns them on or off, and returns what it is now. The browser asks whoever turns them on. */
export async function notify(on) {
  if (on && (await Notification.requestPermission()) === "granted") localStorage.setItem(KEPT, "on");
  else localStorage.removeItem(KEPT);
  return notifying();
}

/** Shows what begins to wait, and takes away what was answered. Returns what ends this. */
export function notifyOf(waiting) {
  const shown = new Map(); // by session and event; null for what was not shown
  const since = Date.now();
  return waiting.watch(() => {
    const now = new Set(waiting.list.map((a) => `${a.session}/${a.seq}`));
    for (const [key, n] of shown) if (!now.has(key)) n?.close(), shown.delete(key);
    for (const a of waiting.list) {
      const key = `${a.session}/${a.seq}`;
      if (!shown.has(key)) shown.set(key, Date.now() - since > FRESH && !document.hasFocus() && notifying() === "on" ? show(a, key) : null);
    }
  });
}

function show(a, key) {
  const n = new Notification("loopbus: a call waits for approval", { body: `${a.toolName} in ${a.session}`, tag: key });
  n.onclick = () => {
    focus();
    go("#/approvals");
    n.close();
  };
  return n;
}
