// NATS's own client for browsers through the WebSocket of a runner: node nats.mjs URL.
import assert from "node:assert/strict";
import { WebSocket } from "ws";
import { wsconnect } from "@nats-io/nats-core";

globalThis.WebSocket ??= WebSocket;
const nc = await wsconnect({ servers: process.argv[2], reconnect: false });
const messages = nc.subscribe("big")[Symbol.asyncIterator]();
for (const size of [0, 1000, 1 << 20]) {
  nc.publish("big", new Uint8Array(size));
  const { value } = await messages.next();
  assert.equal(value.data.length, size);
}
const answer = await nc.request("agent.query.sessions", "{}", { timeout: 20000 });
assert.deepEqual(answer.json().sessions, []);
await nc.close();
process.exit(0);
