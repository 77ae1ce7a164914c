// The official client of OpenClaw's gateway against the bridge: node gateway.mjs URL TOKEN. Status 0 if all is well.
import assert from "node:assert/strict";
import { GatewayClient, createSessionProjection, reduceSessionProjectionRunEvent } from "@openclaw/gateway-client";

const [url, token] = process.argv.slice(2);
const events = [], gaps = [], waiting = [];
const hello = new Promise((resolve, reject) => {
  globalThis.client = new GatewayClient({
    url, token, clientName: "gateway-client", mode: "backend", role: "operator", caps: ["tool-events"],
    scopes: ["operator.read", "operator.write", "operator.approvals"],
    onHelloOk: resolve, onConnectError: reject, onGap: (gap) => gaps.push(gap),
    onEvent(event) {
      events.push(event);
      for (const w of waiting) if (w.is(event)) w.resolve(event);
    },
  });
});
const until = (is) => new Promise((resolve) => {
  const there = events.find(is);
  if (there) resolve(there); else waiting.push({ is, resolve });
});
const chat = (runId, state) => (e) => e.event === "chat" && e.payload.runId === runId && e.payload.state === state;

client.start();
const ok = await hello;
assert.equal(ok.protocol, 4);
assert.ok(ok.features.methods.includes("chat.send"));

await client.request("sessions.subscribe", {});
const sent = await client.request("chat.send", { sessionKey: "js", message: "slow", idempotencyKey: "k1" });
assert.equal(sent.runId, "k1");
await until(chat("k1", "delta"));
await client.request("chat.send", { sessionKey: "js", message: "slow", idempotencyKey: "k1" }); // the same
const final = await until(chat("k1", "final"));
assert.equal(final.payload.message.content[0].text, "begun and done");
assert.equal((await client.request("agent.wait", { runId: "k1" })).status, "ok");
await until((e) => e.event === "sessions.changed" && e.payload.key === "js");
const deltas = events.filter(chat("k1", "delta"));
assert.equal(deltas.map((e) => e.payload.deltaText).join(""), "begun and done");

// What OpenClaw's own user interfaces make of the events.
let projection = createSessionProjection();
for (const e of events.filter((e) => e.event === "chat"))
  projection = reduceSessionProjectionRunEvent(projection, e.payload)?.projection ?? projection;
assert.ok(JSON.stringify(projection).includes("begun and done"), JSON.stringify(projection));

const history = await client.request("chat.history", { sessionKey: "js" });
assert.deepEqual(history.messages.map((m) => m.role), ["user", "assistant"]);
const { sessions } = await client.request("sessions.list", {});
assert.ok(sessions.some((s) => s.key === "js"));

await client.request("exec.approval.list", {});
await client.request("chat.send", { sessionKey: "ask", message: "danger", idempotencyKey: "k2" });
const asked = await until((e) => e.event === "exec.approval.requested");
await client.request("exec.approval.resolve", { id: asked.payload.id, decision: "deny" });
await until((e) => e.event === "exec.approval.resolved" && e.payload.decision === "deny");
await until(chat("k2", "final"));
assert.ok(events.some((e) => e.event === "agent" && e.payload.stream === "tool" && e.payload.data.isError));

await client.request("chat.send", { sessionKey: "hang", message: "hang", idempotencyKey: "k3" });
await until(chat("k3", "delta"));
assert.equal((await client.request("chat.abort", { sessionKey: "hang" })).aborted, true);
await until(chat("k3", "aborted"));
await assert.rejects(() => client.request("no.such", {}), /no method/);
await until((e) => e.event === "tick");
assert.deepEqual(gaps, []);
client.stop();
process.exit(0);
