// Says what the client and the console make of entries, answers and events of which some are malformed. CONSOLE is where
// the console's files are, as served.
import assert from "node:assert/strict";
import { Approvals } from "../../../bus/client/js/approvals.js";
import { Fleet } from "../../../bus/client/js/fleet.js";
import { eventsOf, updateOf } from "../../../bus/client/js/log.js";
import { client, textOf } from "../../../bus/client/js/loopbus.js";
import { listTools } from "../../../bus/client/js/tools.js";

const { Fold } = await import(`${process.env.CONSOLE}/fold.js`);

const encoded = (value) => new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value));
const headers = (of) => ({ get: (key) => of[key] ?? "", values: (key) => (key in of ? [of[key]] : []) });
const message = (subject, value, of = {}) => ({ subject, data: encoded(value), headers: headers(of) });
const link = (stored) => ({ async *stored() { yield* stored; } });
const names = (list, of = (x) => x.name) => list.map(of).join(", ");

// Each value is wrong in its own way where an object with members of certain types should be.
const none = [null, 7, "text", [], [null], true];

const tool = (name, more) => message(`$KV.agent_tools.${name}.w`, { name, worker: "w", since: "2026-01-01T00:00:00Z", ...more });
const tools = await listTools(link([...none.map((v, i) => message(`$KV.agent_tools.n${i}.w`, v)), tool("a", { since: 7 }), tool("b"),
  tool("c", { version: {} }), tool("d", { description: ["x"] }), tool("e", { since: undefined }), tool("f", { effect: "pure" })]));
console.log(`tools: ${names(tools)}`);

const profile = (name, value) => message(`$KV.agent_profiles.${name}`, value);
const profiles = await new Fleet({ link: link([...none.map((v, i) => profile(`n${i}`, v)), profile("a", { tools: "all" }), profile("b", { model: 7 }),
  profile("c", { budget: { maxCost: "x" } }), profile("d", { name: "other", budget: { maxCost: 1.5 }, tools: ["x"], model: { id: "m" } })]) }).profiles();
console.log(`profiles: ${names(profiles.filter((p) => p.description !== "cannot be read"))} of ${profiles.length}`);

const answering = (answers) => client({ isClosed: () => false, async *status() { await new Promise(() => {}); }, flush: async () => {},
  subscribe(inbox, { callback }) { this.inbox = { ...this.inbox, [inbox]: callback }; return { unsubscribe() {} }; },
  publish(subject, _, { reply }) { for (const a of answers[subject] ?? []) this.inbox[reply](null, message(reply, a)); },
  async request(subject) { return message("", answers[subject]); } });
const info = (id) => ({ version: "1", metadata: { prefix: "agent", id } });
const c = answering({
  "$SRV.INFO.loopbus-runner": [...none, "{", info("r1"), info({}), info("r2")],
  "agent.svc.runner.status": [...none, "{", { id: "r1", ready: true, inFlight: "x" }, { id: "r2", ready: true, partitions: null }],
  "agent.query.models": { models: [...none, { provider: "p", id: "m", rates: { input: "x" } }, { provider: "p", id: "n", rates: { input: 1 } }] },
  "agent.query.sessions": { sessions: [...none, { session: "s1" }, { session: "s2", lastActivity: "2026-01-01T00:00:00Z", seq: 1 }] },
  "agent.query.approvals": { approvals: [...none, { session: "s1", seq: 1, call: 7 }, { session: "s2", seq: 1, call: "c1", args: {} }] },
});
console.log(`runners: ${names(await c.fleet.runners(), (r) => `${r.id} ${r.ready}`)}`);
console.log(`models: ${names(await c.models(), (m) => m.id)}`);
console.log(`sessions: ${names((await c.sessions()).sessions, (s) => s.session)}`);
for await (const a of new Approvals(c, {}).run()) {
  console.log(`approvals: ${a.session}`);
  break;
}

// An event without an object is damage of its log, and says so.
const commit = (events) => ({ headers: headers({ "Loopbus-Commit": `v2 1-${events.length}` }), data: encoded(events) });
const event = (data) => ({ id: "s1/1", type: "dev.loopbus.error.v1", data });
for (const v of none) {
  for (const m of [commit([event(v)]), commit([v]), message("", v, { "ce-id": "s1/1", "ce-type": "dev.loopbus.error.v1" })]) {
    assert.throws(() => eventsOf("s1", m), { name: "DamagedError" });
  }
  const update = message("", { call: "c1", partialResult: v }, { "ce-id": "s1/1.1", "ce-type": "dev.loopbus.tool_execution_update.v1" });
  assert.equal(updateOf("s1", update), undefined);
  textOf({ content: v });
}

// The console shows the events behind one that it cannot show.
const types = Object.getOwnPropertyNames(Fold.prototype).filter((name) => name.startsWith("on_")).map((name) => name.slice(3));
assert(types.length > 30);
for (const type of types) {
  const fold = new Fold();
  const members = ["messageId", "message", "call", "messages", "entries", "data", "content", "usage", "prompts", "failures", "kind", "display",
    "terminationReason", "config", "parent", "to", "result", "summary"];
  let seq = 0;
  for (const v of none) fold.apply({ event: { seq: ++seq, type, time: "", data: Object.fromEntries(members.map((m) => [m, v])) } });
  fold.apply({ event: { seq: ++seq, type, time: "", data: null } });
  fold.apply({ event: { seq: ++seq, type: "error", time: "", data: { message: "the last" } } });
  assert.equal(fold.entries.at(-1).text, "the last", type);
}
console.log("events: the last");
process.exit(); // the connection has no end
