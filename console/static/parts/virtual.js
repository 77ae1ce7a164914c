// A list that renders only its visible rows. All rows have the same height.

import { html } from "../html.js";
import { Guard } from "./guard.js";
import { useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";

/**
 * rows, their height in pixels, what names one, how one is rendered, and what is called near the end. Arrow keys go from
 * row to row; those to the left and right are fold's, with the row.
 */
export function VirtualList({ rows, height, row, id, near, label, more, fold }) {
  const ref = useRef();
  const [view, setView] = useState({ top: 0, size: 800 });
  useLayoutEffect(() => {
    const el = ref.current;
    const measure = () => setView({ top: el.scrollTop, size: el.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(el);
    el.addEventListener("scroll", measure, { passive: true });
    measure();
    return () => observer.disconnect();
  }, []);
  const first = Math.max(0, Math.floor(view.top / height) - 10);
  const last = Math.min(rows.length, Math.ceil((view.top + view.size) / height) + 10);
  useEffect(() => {
    if (last >= rows.length - 20) near?.();
  }, [last, rows.length]);
  const moved = (e) => {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[e.key];
    const at = Number(document.activeElement?.closest?.("[data-row]")?.dataset.row ?? -1);
    const to = at + step;
    const aside = { ArrowLeft: true, ArrowRight: false }[e.key];
    if (aside !== undefined && rows[at]) fold?.(rows[at], aside);
    if (!step || to < 0 || to >= rows.length) return;
    e.preventDefault();
    const el = ref.current;
    if (to * height < el.scrollTop) el.scrollTop = to * height;
    if ((to + 1) * height > el.scrollTop + el.clientHeight) el.scrollTop = (to + 1) * height - el.clientHeight;
    setView({ top: el.scrollTop, size: el.clientHeight });
    requestAnimationFrame(() => el.querySelector(`[data-row="${to}"] a`)?.focus());
  };
  const seen = [];
  for (let i = first; i < last; i++) {
    seen.push(html`<li key=${id(rows[i])} data-row=${i} aria-posinset=${i + 1} aria-setsize=${more ? -1 : rows.length}
      style=${{ transform: `translateY(${i * height}px)`, height: `${height}px` }}><${Guard}>${row(rows[i], i)}</${Guard}></li>`);
  }
  return html`<div class="virtual" ref=${ref} onKeyDown=${moved} tabindex="-1">
    <ul role="list" aria-label=${label} style=${{ height: `${rows.length * height}px` }}>${seen}</ul></div>`;
}
