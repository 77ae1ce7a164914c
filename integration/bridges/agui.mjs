// The official AG-UI client against a bridge: node agui.mjs PACKAGE URL. It ends with status 0 if all is as it should be.
import assert from "node:assert/strict";

const [pkg, url] = process.argv.slice(2);
const { HttpAgent } = await import(pkg);
const modern = pkg === "@ag-ui/client";
let ids = 0;

/** An agent of a thread, with what it was told. */
function agentOf(threadId) {
  const agent = new HttpAgent({ url: `${url}/ag-ui`, threadId });
  agent.seen = [];
  return agent;
}

/** Runs once, with a message of the user if there is a text, and returns the types of the events that came. */
async function run(agent, text, params = {}) {
  if (text) agent.addMessage({ id: `client-${++ids}`, role: "user", content: text });
  const events = [];
  await agent.runAgent({ runId: `run-${++ids}`, ...params }, {
    onEvent: ({ event }) => { events.push(event); params.onEvent?.(event); },
  });
  const types = events.map((e) => e.type);
  assert.equal(types[0], "RUN_STARTED");
  assert.ok(["RUN_FINISHED", "RUN_ERROR"].includes(types.at(-1)), `the last event is ${types.at(-1)}`);
  return { events, types, last: events.at(-1) };
}

const texts = (agent) => agent.messages.filter((m) => m.role === "user" || m.role === "assistant" && m.content)
  .map((m) => `${m.role}: ${m.content}`);

const scenarios = {
  async "text, reasoning, and ids of the log"() {
    const agent = agentOf("hello");
    const { types, last } = await run(agent, "hello");
    assert.deepEqual(texts(agent), ["user: hello", "assistant: hello to you"]);
    assert.ok(agent.messages.every((m) => /^m\d+/.test(m.id)), JSON.stringify(agent.messages));
    assert.ok(types.includes("REASONING_MESSAGE_CONTENT"), types.join());
    assert.equal(agent.messages.find((m) => m.role === "reasoning")?.content, "they greet");
    assert.ok(types.includes("STEP_STARTED") && types.includes("STEP_FINISHED"));
    assert.equal(last.usage !== undefined, modern);
    await run(agent, "hello again"); // the thread is sent whole, and only the new message is taken
    assert.deepEqual(texts(agent),
      ["user: hello", "assistant: hello to you", "user: hello again", "assistant: hello to you"]);
    const other = agentOf("hello"); // who opens the thread elsewhere is shown it
    await run(other);
    assert.deepEqual(texts(other), texts(agent));
  },

  async "calls, progress and results"() {
    const agent = agentOf("tools");
    const { types, events } = await run(agent, "tool please");
    assert.deepEqual(texts(agent), ["user: tool please", "assistant: I look", "assistant: it is done"]);
    const calls = agent.messages.flatMap((m) => m.toolCalls ?? []);
    assert.deepEqual(calls.map((c) => [c.function.name, JSON.parse(c.function.arguments)]),
      [["steps", { n: 2 }], ["echo", { v: "x" }]]);
    const results = agent.messages.filter((m) => m.role === "tool");
    assert.deepEqual(results.map((m) => m.toolCallId), calls.map((c) => c.id));
    assert.equal(results[0].content, "all");
    assert.deepEqual(JSON.parse(results[1].content), { v: "x" });
    assert.equal(types.filter((t) => t === "TOOL_CALL_RESULT").length, 2);
    const progress = events.filter((e) => e.type === "ACTIVITY_SNAPSHOT");
    assert.ok(progress.every((e) => e.content.text === "half" && e.content.toolCallId === calls[0].id));
  },

  async "an approval is an interrupt"() {
    for (const approved of [true, false]) {
      const agent = agentOf(`danger-${approved}`);
      const { last } = await run(agent, "danger");
      assert.equal(last.outcome?.type, "interrupt");
      const [interrupt] = last.outcome.interrupts;
      assert.equal(interrupt.reason, "tool_call");
      assert.equal(interrupt.toolCallId, agent.messages.at(-1).toolCalls[0].id);
      const resume = [{ interruptId: interrupt.id, status: "resolved", payload: { approved, reason: "says the test" } }];
      const runId = `resume-${approved}`;
      const done = await run(agent, "", { resume, runId });
      assert.equal(done.last.type, "RUN_FINISHED");
      const result = agent.messages.find((m) => m.role === "tool");
      assert.match(result.content, approved ? /"v"/ : /says the test/);
      assert.equal(texts(agent).at(-1), "assistant: it is over");
      const post = (body) => fetch(`${url}/ag-ui`, { method: "POST", body: JSON.stringify(body) });
      const again = { threadId: agent.threadId, messages: [], resume };
      const replay = await post({ ...again, runId }); // harmless
      assert.equal(replay.status, 200);
      assert.match(await replay.text(), /RUN_FINISHED/);
      const stale = await post({ ...again, runId: `stale-${approved}` });
      assert.equal(stale.status, 409);
      assert.equal((await stale.json()).code, "not_found"); // its run has ended
    }
  },

  async "an approval with other arguments"() {
    const agent = agentOf("edited");
    const { last } = await run(agent, "danger");
    const [interrupt] = last.outcome.interrupts;
    assert.equal(interrupt.responseSchema.properties.editedArgs.type, "object");
    const resume = (editedArgs, approved = true) =>
      [{ interruptId: interrupt.id, status: "resolved", payload: { approved, editedArgs } }];
    const bad = { v: { not: "a text" } };
    for (const [answer, status, code, message] of [
      [resume(["z"]), 400, "invalid", /no object/], [resume({ v: "z" }, false), 400, "invalid", /denies/],
      [resume(bad), 409, "invalid_args", /v/], [resume(bad), 400, "invalid", /refused just this answer/],
    ]) {
      const refused = await fetch(`${url}/ag-ui`, { method: "POST",
        body: JSON.stringify({ threadId: "edited", runId: "the-answer", messages: [], resume: answer }) });
      assert.equal(refused.status, status);
      const told = await refused.json();
      assert.equal(told.code, code);
      assert.match(told.message, message);
    }
    await assert.rejects(() => run(agent, "", { resume: resume(bad) }), /409/); // and the client still knows what waits
    const { last: end } = await run(agent, "", { resume: resume({ v: "z" }), runId: "the-answer" });
    assert.equal(end.type, "RUN_FINISHED");
    const result = agent.messages.find((m) => m.role === "tool");
    assert.deepEqual(JSON.parse(result.content), { v: "z" });
    const call = agent.messages.flatMap((m) => m.toolCalls ?? [])[0];
    assert.deepEqual(JSON.parse(call.function.arguments), { v: "y" }); // the reply stays as the model wrote it
    assert.equal(texts(agent).at(-1), "assistant: it is over");
  },

  async "the same run twice is one prompt"() {
    const one = agentOf("twice"), two = agentOf("twice");
    for (const agent of [one, two]) agent.addMessage({ id: "u", role: "user", content: "slow" });
    await Promise.all([one, two].map((agent) => run(agent, "", { runId: "the-run" })));
    for (const agent of [one, two]) assert.deepEqual(texts(agent), ["user: slow", "assistant: begun and done"]);
  },

  async "who leaves ends nothing, and gets the rest"() {
    const agent = agentOf("leaves");
    agent.addMessage({ id: "u", role: "user", content: "slow" });
    const left = run(agent, "", { runId: "left", onEvent: (e) => e.type === "TEXT_MESSAGE_CONTENT" && agent.abortRun() });
    await left.catch(() => {}); // it is told of its own abort
    const again = agentOf("leaves");
    const { last } = await run(again, "", { runId: "left" });
    assert.equal(last.type, "RUN_FINISHED");
    assert.deepEqual(texts(again), ["user: slow", "assistant: begun and done"]);
  },

  async "a reply that failed is taken back"() {
    const agent = agentOf("flaky");
    await run(agent, "flaky");
    assert.deepEqual(texts(agent), ["user: flaky", "assistant: at last"]);
  },

  async "failures are errors"() {
    const agent = agentOf("fail");
    let told;
    await run(agent, "fail", { onEvent: (e) => { if (e.type === "RUN_ERROR") told = e; } }).catch(() => {});
    assert.equal(told?.code, "error");
    assert.match(told.message, /script/i);
    await assert.rejects(() => run(agentOf("fail"), "", { resume: [{ interruptId: "c1", status: "no" }] }));
  },

  async "an abort by the route of its own"() {
    const agent = agentOf("hang");
    const ended = [];
    await run(agent, "hang", {
      onEvent(e) {
        if (e.type === "TEXT_MESSAGE_CONTENT")
          fetch(`${url}/ag-ui/abort`, { method: "POST", body: JSON.stringify({ threadId: "hang" }) });
        if (e.type === "RUN_ERROR" || e.type === "RUN_FINISHED") ended.push(e);
      },
    }).catch(() => {});
    assert.equal(ended.length, 1);
    if (modern) assert.equal(ended[0].outcome?.type, "cancelled");
    else assert.equal(ended[0].code, "abort_signal");
    const none = await fetch(`${url}/ag-ui/abort`, { method: "POST", body: JSON.stringify({ threadId: "hang" }) });
    assert.equal(none.status, 204);
  },

  async "a tool of the client"() {
    const tools = [{ name: "pick_colour", description: "asks the user",
      parameters: { type: "object", properties: { of: { type: "string" } } } }];
    const agent = agentOf("frontend");
    const { last } = await run(agent, "frontend", { tools });
    assert.equal(last.type, "RUN_FINISHED");
    const call = agent.messages.at(-1).toolCalls[0];
    assert.equal(call.function.name, "pick_colour");
    assert.deepEqual(last.outcome?.pendingToolCallIds, modern ? [call.id] : undefined);
    agent.addMessage({ id: "r", role: "tool", toolCallId: call.id, content: "green" });
    await run(agent, "", { tools });
    assert.equal(agent.messages.find((m) => m.role === "tool").content, "green");
    assert.equal(texts(agent).at(-1), "assistant: a fine colour");
  },

  async "a result together with a message"() {
    const tools = [{ name: "pick_colour", description: "asks the user", parameters: { type: "object", properties: {} } }];
    const agent = agentOf("result and message");
    await run(agent, "frontend", { tools });
    const [call] = agent.messages.at(-1).toolCalls;
    agent.addMessage({ id: "r", role: "tool", toolCallId: call.id, content: "green" });
    const { last } = await run(agent, "hello", { tools });
    assert.equal(last.type, "RUN_FINISHED");
    assert.equal(last.outcome?.pendingToolCallIds, undefined);
    assert.deepEqual(agent.messages.map((m) => m.role).filter((role) => role !== "reasoning"),
      ["user", "assistant", "tool", "assistant", "user", "assistant"]);
    assert.deepEqual(texts(agent),
      ["user: frontend", "assistant: a fine colour", "user: hello", "assistant: hello to you"]);
  },
};

let failed = 0;
for (const [name, scenario] of Object.entries(scenarios)) {
  try {
    await scenario();
    console.log(`ok: ${name}`);
  } catch (err) {
    failed++;
    console.log(`FAILED: ${name}\n${err.stack ?? err}`);
  }
}
process.exit(failed);
