// Lists the tools that workers announce.

import { parse } from "./numbers.js";
import { isAnnouncement, read } from "./shapes.js";
import { text } from "./stored.js";

const BUCKET = "$KV.agent_tools.";
const since = (a) => a.since.replace("Z", ""); // sorts by time, with any number of fractional digits
const byText = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/**
 * Returns the tools by name, version and workspace: the definition of the newest announcement, and the workers. It
 * skips announcements that are invalid or stored under a key of another tool or worker.
 */
export async function listTools(link, signal) {
  const queues = new Map();
  for await (const m of link.stored("KV_agent_tools", `${BUCKET}>`, { last: true, signal })) {
    const a = read(text(m), isAnnouncement, parse);
    if (!a) continue; // withdrawn, expired, or malformed
    const queue = [a.name, ...(a.version || a.workspace ? [a.version ?? ""] : []), ...(a.workspace ? [a.workspace] : [])].join("=");
    if (m.subject !== `${BUCKET}${queue}.${a.worker}`) continue;
    if (!queues.has(queue)) queues.set(queue, []);
    queues.get(queue).push(a);
  }
  const version = (a, b) => a.localeCompare(b, "en", { numeric: true });
  return [...queues.values()].map((list) => {
    list.sort((a, b) => byText(since(b), since(a)));
    const { worker: _w, since: _s, ...definition } = list[0];
    return { ...definition, workers: list.map((a) => a.worker).sort() };
  }).sort((a, b) => byText(a.name, b.name) || version(a.version ?? "", b.version ?? "") ||
    byText(a.workspace ?? "", b.workspace ?? ""));
}
