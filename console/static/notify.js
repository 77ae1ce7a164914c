// Browser notifications about calls that wait for approval, for users who have turned them on, while the page is in the
// background. They name the session and the tool, and contain no text of a model.

import { askedKey, visible } from "./format.js";
import { go } from "./state.js";

const KEPT = "loopbus.notify";
const FRESH = 2000; // ms after opening the page in which waiting calls are not new and are not notified

/** "on", "off", or "never" if the browser does not show notifications. */
export function notifying() {
  if (!("Notification" in globalThis) || Notification.permission === "denied") return "never";
  return localStorage.getItem(KEPT) === "on" && Notification.permission === "granted" ? "on" : "off";
}

/** Turns notifications on or off, and returns the new state. The browser asks the user for permission. */
export async function notify(on) {
  if (on && (await Notification.requestPermission()) === "granted") localStorage.setItem(KEPT, "on");
  else localStorage.removeItem(KEPT);
  return notifying();
}

/** Notifies of calls that begin to wait, until they are answered. Returns a function that stops. */
export function notifyOf(waiting) {
  const shown = new Map(); // null for calls without a notification
  const since = Date.now();
  return waiting.watch(() => {
    const now = new Set(waiting.list.map(askedKey));
    for (const [key, n] of shown) if (!now.has(key)) n?.close(), shown.delete(key);
    for (const a of waiting.list) {
      const key = askedKey(a);
      if (!shown.has(key)) shown.set(key, Date.now() - since > FRESH && !document.hasFocus() && notifying() === "on" ? show(a, key) : null);
    }
  });
}

function show(a, key) {
  const n = new Notification("loopbus: a call waits for approval", { body: visible(`${a.toolName} in ${a.session}`, true), tag: key });
  n.onclick = () => {
    focus();
    go("#/approvals");
    n.close();
  };
  return n;
}
