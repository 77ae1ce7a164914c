// Prints how many updates of an endless reply the client yields, and the type of the event stored after them,
// which must arrive.
import { Follower } from "../../../bus/client/js/follow.js";

const encoded = (v) => new TextEncoder().encode(JSON.stringify(v));
const message = (seq, headers, data) => ({ seq, headers: { get: (key) => headers[key] ?? "", values: () => [] }, data: encoded(data) });
const event = (seq, type, data) => message(seq, { "Loopbus-Commit": `v2 ${seq}-${seq}` }, [{ specversion: "1.0", id: `s1/${seq}`,
  source: "/x", type: `dev.loopbus.${type}.v1`, time: "2026-01-01T00:00:00Z", data }]);
const update = (n, delta) => message(n, { "ce-type": "dev.loopbus.message_update.v1", "ce-id": `s1/1.${n}`, "ce-time": "2026-01-01T00:00:01Z" },
  { messageId: "m1", assistantMessageEvents: [{ type: "text_delta", contentIndex: 0, delta }] });

const subjects = { event: (s) => `agent.evt.${s}`, live: (s, what) => `agent.live.${s}.${what}` };
const end = event(2, "message_end", { messageId: "m1", message: { role: "assistant", content: [] } });

async function run(what, updates) {
  const stored = { AGENT_EVT: [event(1, "message_start", { messageId: "m1", role: "assistant" })], AGENT_UPD: updates };
  const link = {
    async *stored(stream, _, { after = 0 } = {}) { for (const m of stored[stream]) if (m.seq > after) yield m; },
    async *retryRead(read) { yield* read(); },
  };
  const follower = new Follower(link, subjects, "s1");
  let yielded = 0;
  let type = "";
  const count = async () => { for await (const i of follower.stored()) i.update ? yielded++ : (type = i.event.type); };
  await count();
  stored.AGENT_EVT.push(end);
  await count();
  console.log(`${what}: ${yielded} of ${updates.length}, then ${type}`);
}

const large = "x".repeat(10 << 20);
await run("large", [1, 2, 3, 4].map((n) => update(n, large)).concat(update(5, "rest")));
await run("small", Array.from({ length: 300_000 }, (_, i) => update(i + 1, "x")));
