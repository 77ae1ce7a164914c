// Prompts a loopbus session and prints the reply as it comes, with the JavaScript client of bus/client/js.
//
//   npm ci && NATS_URL=nats://127.0.0.1:4222 node prompt.mjs 'list the files' [SESSION]

import { connect } from "@nats-io/transport-node";
import { client, deltaOf, textOf } from "../../../bus/client/js/loopbus.js";

const [text, session = "s1"] = process.argv.slice(2);
const nc = await connect({ servers: process.env.NATS_URL ?? "nats://127.0.0.1:4222", maxReconnectAttempts: -1 });
const run = await client(nc).session(session).prompt(text);
let said = ""; // of the reply that is being streamed
for await (const item of run.items()) {
  const { type, data } = item.event ?? {};
  let more = deltaOf(item);
  if (type === "message_end" && data.message.role === "assistant") more = textOf(data.message).slice(said.length);
  process.stdout.write(more);
  said = type === "message_end" ? "" : said + more;
  if (type === "tool_execution_start") console.log(`\n[${data.toolName}]`);
}
const { reason, cost } = await run.wait();
console.log(`\n(${reason}, $${cost.toFixed(4)})`);
await nc.close();
