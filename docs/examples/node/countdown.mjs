// A loopbus tool in JavaScript: counts down, tells how far it is, and can be stopped. Written from
// docs/tool-protocol.md; the numbers in comments are its steps.
//
//   npm ci && NATS_URL=nats://127.0.0.1:4222 node countdown.mjs

import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { AckPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, headers, nanos, nuid } from "@nats-io/transport-node";

const TOOL = "countdown";
const WORKER = `node-${nuid.next().toLowerCase()}`;
const CONCURRENCY = 4;
const UNSAFE = false; // this tool may be carried out twice: its effect class is read_only
const ACK_WAIT = 4_000; // ms without a heartbeat after which another worker gets the call, in a consumer that we make
const HEARTBEAT = 1_000; // ms between two, whatever the consumer has: another worker may shorten it
const TTL = 30; // s that the announcement outlives us
const REPLY = /^(agent\.reply|_INBOX)(\.[A-Za-z0-9_-]{1,64}){1,14}$/;

const OUTCOME_UNKNOWN =
  "The outcome of this call is unknown: the worker that ran it was lost before it answered. " +
  "It was not run again because the tool is not safe to repeat. Check what happened before calling it again.";

const definition = {
  name: TOOL,
  description: "Counts down to zero.",
  parameters: {
    type: "object",
    properties: {
      from: { type: "integer", minimum: 1, maximum: 1000, description: "Where to begin" },
      everyMs: { type: "integer", minimum: 1, description: "Milliseconds between two numbers (default: 1000)" },
    },
    required: ["from"],
  },
  effect: "read_only",
};

async function countdown({ from, everyMs = 1000 }, { signal, update }) {
  for (let n = from; n > 0; n--) {
    update(`${n} ...`);
    await sleep(everyMs, undefined, { signal });
  }
  return `Counted down from ${from}.`;
}

const nc = await connect({ servers: process.env.NATS_URL ?? "nats://127.0.0.1:4222", name: WORKER, maxReconnectAttempts: -1 });
const js = jetstream(nc);
const text = (s) => ({ content: [{ type: "text", text: s }] });

// 1. Cancellations, before the first call can come.
const running = new Map(); // "<session>.<call>/<what cancels it>" -> AbortController
const told = new Set(); // the newest of these, cancelled before they began here
nc.subscribe("agent.cancel.*.*", {
  callback: (_err, msg) => {
    if (msg.headers || msg.data.length === 0) return; // a reply of the NATS server
    const key = `${msg.subject.split(".").slice(-2).join(".")}/${msg.string()}`;
    running.get(key)?.abort();
    told.add(key);
    if (told.size > 1000) told.delete(told.values().next().value);
  },
});

// 2. The queue's consumer, unless another worker has made it.
const consumers = (await jetstreamManager(nc)).consumers;
try {
  await consumers.info("AGENT_TOOL", TOOL);
} catch {
  await consumers.add("AGENT_TOOL", {
    durable_name: TOOL,
    filter_subject: `agent.tool.${TOOL}.*.*`,
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(ACK_WAIT),
    max_deliver: -1,
    max_ack_pending: -1,
  });
}

// 3. The announcement, renewed three times in its life.
const entry = `$KV.agent_tools.${TOOL}.${WORKER}`;
const announcement = JSON.stringify({ ...definition, worker: WORKER, since: new Date().toISOString() });
async function announce() {
  const h = headers();
  h.set("Nats-TTL", `${TTL}s`);
  await js.publish(entry, announcement, { headers: h });
}
await announce();
const renewal = setInterval(() => announce().catch((err) => console.error("announcement not renewed:", err.message)), (TTL * 1000) / 3);

// 4. Calls, one for each free slot.
let stopping = false;
const consumer = await js.consumers.get("AGENT_TOOL", TOOL);
async function slot() {
  while (!stopping) {
    try {
      const msg = await consumer.next({ expires: 2000 }); // what comes after stopping has begun is still handled
      if (msg) await handle(msg);
    } catch (err) {
      console.error("call not taken:", err.message);
      await sleep(250);
    }
  }
}

async function handle(msg) {
  const alive = setInterval(() => msg.working(), HEARTBEAT); // 5.
  try {
    const [session, call] = msg.subject.split(".").slice(-2);
    const begun = Date.now();
    const { req, result, isError } = await execute(msg, session, call);
    const nonce = req.nonce ?? "-"; // a call's answers have its nonce
    const answer = {
      id: `result/${call}`,
      call,
      nonce,
      toolCallId: req.toolCallId ?? "",
      toolName: TOOL,
      result,
      isError,
      durationMs: Date.now() - begun,
      worker: WORKER,
    };
    if (req.replyTo) nc.publish(req.replyTo, JSON.stringify(answer)); // 8., to a caller that is no session
    else await store(`agent.cmd.${session}.tool_result`, answer, `${session}/${call}/${nonce === "-" ? nuid.next() : nonce}/result`);
    msg.ack(); // 9. only now
  } finally {
    clearInterval(alive);
  }
}

// 6. Executes a call, or says why not.
async function execute(msg, session, call) {
  let req = {};
  try {
    req = msg.json();
    if (req.session !== session || req.call !== call) throw new Error("it was sent for another call");
    if (req.replyTo && !REPLY.test(req.replyTo)) throw new Error("its replyTo is not for answers");
  } catch (err) {
    const nonce = msg.headers?.get("Nats-Msg-Id").split("/")[2];
    return { req: { nonce }, isError: true, result: text(`The request of this call was malformed: ${err.message}`) };
  }
  if (UNSAFE && msg.info.deliveryCount > 1) {
    return { req, isError: true, result: text(OUTCOME_UNKNOWN) };
  }
  const key = `${session}.${call}/${req.nonce ? createHash("sha256").update(req.nonce).digest("hex") : "-"}`;
  const cancel = new AbortController();
  running.set(key, cancel);
  if (told.has(key)) cancel.abort();
  const limit = req.timeoutMs > 0 ? setTimeout(() => cancel.abort(), req.timeoutMs) : undefined;
  const begun = Date.now();
  try {
    return { req, isError: false, result: text(await countdown(req.arguments, { signal: cancel.signal, update: updater(req) })) };
  } catch (err) {
    const late = req.timeoutMs > 0 && Date.now() - begun >= req.timeoutMs;
    const why = late ? `Tool timed out after ${req.timeoutMs / 1000} seconds` : "Operation aborted";
    return { req, isError: true, result: text(cancel.signal.aborted ? why : err.message) };
  } finally {
    clearTimeout(limit);
    running.delete(key);
  }
}

// 7. Publishes partial results, each of which replaces the one before, at most one per 25 ms.
function updater(req) {
  let n = 0;
  let last = 0;
  return (partial) => {
    if (Date.now() - last < 25) return;
    last = Date.now();
    n++;
    const h = headers();
    h.set("ce-specversion", "1.0");
    h.set("ce-id", `${req.session}/${req.startSeq}.${n}`);
    h.set("ce-source", `/loopbus/toolworker/${WORKER}`);
    h.set("ce-type", "dev.loopbus.tool_execution_update.v1");
    h.set("ce-subject", req.session);
    h.set("ce-time", new Date().toISOString());
    h.set("ce-datacontenttype", "application/json");
    h.set("ce-dataschema", "https://loopbus.dev/schemas/updates/tool_execution_update.v1.json");
    h.set("ce-sequence", `${String(req.startSeq).padStart(20, "0")}.${String(n).padStart(6, "0")}`);
    h.set("ce-runid", req.runId);
    h.set("ce-turnid", req.turnId);
    const data = { toolCallId: req.toolCallId, toolName: TOOL, call: req.call, partialResult: text(partial) };
    nc.publish(`agent.live.${req.session}.update`, JSON.stringify(data), { headers: h });
  };
}

// 8. Repeats until the stream has it: its message id makes one of many.
async function store(subject, answer, msgID) {
  for (let wait = 50; ; wait = Math.min(2 * wait, 5000)) {
    try {
      await js.publish(subject, JSON.stringify(answer), { msgID });
      return;
    } catch (err) {
      console.error(`result ${msgID} not stored, trying again:`, err.message);
      await sleep(wait);
    }
  }
}

// 10. When told to stop: withdraw, take no more, finish what is at work.
async function stop() {
  if (stopping) process.exit(1); // told twice
  stopping = true;
  clearInterval(renewal);
  const h = headers();
  h.set("KV-Operation", "DEL");
  h.set("Nats-TTL", `${TTL}s`);
  await js.publish(entry, "", { headers: h }).catch((err) => console.error("announcement not withdrawn:", err.message));
  setTimeout(() => running.forEach((cancel) => cancel.abort()), 10_000).unref();
}
process.on("SIGTERM", stop);
process.on("SIGINT", stop);

console.log(`serving ${TOOL} as ${WORKER}`);
await Promise.all(Array.from({ length: CONCURRENCY }, slot));
await nc.drain();
