// Shared by the views: observable values, the place in the URL, and batching of changes into one frame.

import { useEffect, useState } from "./vendor/preact.js";

/** A value that views watch. change notifies them, at most once a frame. */
export class Watched {
  version = 0;
  #watchers = new Set();
  #told = false;

  change() {
    this.version++;
    if (this.#told) return;
    this.#told = true;
    const tell = () => {
      this.#told = false;
      for (const f of [...this.#watchers]) f(this.version);
    };
    // A page in the background gets no frames, and should be up to date when it becomes visible.
    if (document.hidden) setTimeout(tell, 250);
    else requestAnimationFrame(tell);
  }

  watch(f) {
    this.#watchers.add(f);
    return () => this.#watchers.delete(f);
  }
}

/** Renders the view again when the value has changed. */
export function useWatched(value) {
  const [, set] = useState({});
  const drawn = value?.version;
  useEffect(() => {
    if (!value) return undefined;
    const again = () => set({});
    if (value.version !== drawn) again(); // it has changed since it was rendered
    return value.watch(again);
  }, [value]);
  return value;
}

/** Creates an object with stop() when its key changes; stops it when the view is removed. */
export function useOwned(make, key) {
  const [owned, set] = useState(null);
  useEffect(() => {
    const made = make();
    set(made);
    return () => made.stop();
  }, key);
  return useWatched(owned);
}

/** The place: path tokens and parameters of the part of the URL behind #. */
export function placeOf(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const tokens = path.split("/").filter(Boolean).map((t) => {
    try {
      return decodeURIComponent(t);
    } catch {
      return t;
    }
  });
  return { tokens, query: new URLSearchParams(query ?? "") };
}

export function usePlace() {
  const [hash, set] = useState(location.hash);
  useEffect(() => {
    const changed = () => set(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return placeOf(hash);
}

export const go = (hash) => (location.hash = hash);

/** Changes the place without adding to the browser's history. */
export function replace(hash) {
  history.replaceState(null, "", hash);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** The outcome of a user's action: shown for a while. */
class Notices extends Watched {
  list = [];
  #n = 0;

  add(text, tone = "ok", forMs = 6000) {
    const notice = { key: ++this.#n, text, tone };
    this.list = [...this.list, notice].slice(-4);
    this.change();
    setTimeout(() => this.drop(notice.key), forMs);
  }

  drop(key) {
    this.list = this.list.filter((n) => n.key !== key);
    this.change();
  }
}

export const notices = new Notices();

/** Carries out a user's action, and shows its outcome. */
export async function doing(what, f) {
  try {
    const result = await f();
    notices.add(`${what}: done`);
    return result;
  } catch (err) {
    notices.add(err.name === "RejectedError" ? `${what}: refused, ${err.reason} (${err.code})`
      : err.name === "WithdrawnError" ? `${what}: ${err.superseded ? "superseded" : "withdrawn"}` : `${what}: ${err.message}`, "bad", 15000);
    return undefined;
  }
}
