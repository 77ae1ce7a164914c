// Templates. What others wrote gets onto the page by them, so they show every text with the characters that it has: no
// view can forget to, and no name, title or reason reads other than it is.

import { visible } from "./format.js";
import { h, htm, isValidElement } from "./vendor/preact.js";

const LABELS = ["title", "aria-label"]; // attributes that people read

/** What stands between tags. Preact would show nothing of a value that is neither text nor a node. */
function shown(v) {
  if (Array.isArray(v)) return v.map(shown);
  return typeof v === "string" || (Object(v) === v && typeof v !== "function" && !isValidElement(v)) ? visible(v, true) : v;
}

/** Text of a conversation is the property children instead, which is not changed: see Text. */
export const html = htm.bind((type, props, ...children) => {
  if (typeof type === "string") for (const name of LABELS) if (props?.[name]) props[name] = visible(props[name], true);
  return h(type, props, ...children.map(shown));
});
