// What the tests of the JavaScript client have it do: node client.mjs SCENARIO. MODULES is where its NATS client is. It
// prints a JSON object a line, and reads a line of its input where the test has something to do first.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { client, DamagedError, deltaOf, QueryError, RejectedError, WithdrawnError } from "../../../bus/client/js/loopbus.js";

const { connect } = createRequire(`${process.env.MODULES}/`)("@nats-io/transport-node");
const nc = await connect({ servers: process.env.NATS_URL, maxReconnectAttempts: -1, reconnectTimeWait: 50 });
const c = client(nc, { requestTimeout: 60_000 });
const signal = AbortSignal.timeout(80_000);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (what) => console.log(JSON.stringify(what));
const told = async (what) => {
  say(what);
  await lines.next();
};

const shown = (item) =>
  item.event ? { seq: item.event.seq, type: item.event.type }
    : { update: item.update.event, n: item.update.n, delta: deltaOf(item) };

const scenarios = {
  // Follows a run, and has the test do something once there is text of the reply.
  async run() {
    const run = await c.session("s1").prompt("go", { signal });
    let joined = false;
    for await (const item of run.items({ signal })) {
      say(shown(item));
      if (!joined && deltaOf(item)) {
        joined = true;
        await told({ streaming: true });
      }
    }
    say({ result: await run.wait({ signal }) });
  },

  // Begins before there are streams and a runner: says each time that nobody has heard a request, the first time of
  // each kind, and goes on.
  async early() {
    const { request } = nc;
    const unheard = new Set();
    let slow = true; // what follows the first refusal is not answered in time: the refusal is what the error says
    nc.request = async (subject, payload, o) => {
      try {
        if (slow && unheard.size > 0) {
          await new Promise((resolve) => setTimeout(resolve, o.timeout));
          throw Object.assign(new Error("timeout"), { name: "TimeoutError" });
        }
        return await request.call(nc, subject, payload, o);
      } catch (err) {
        const kind = subject.startsWith("$JS.") ? "log" : "query";
        if (/no responders/.test(err.message) && unheard.size < unheard.add(kind).size) say({ unheard: kind });
        throw err;
      }
    };
    const gaveUp = /gave up after 1000 ms: query .*: no runner answers/;
    await assert.rejects(c.session("s1").state({ signal, timeout: 1000 }), gaveUp);
    slow = false;
    const [run, page] = await Promise.all([c.session("s1").prompt("go", { signal }), c.sessions({}, { signal })]);
    say({ result: await run.wait({ signal }), ok: Array.isArray(page.sessions) });
  },

  // Joins in the middle of a reply.
  async join() {
    let early; // what a follower yields that begins at an event to come
    const ahead = c.session("s1").watch(50, { signal })[Symbol.asyncIterator]();
    ahead.next().then(({ value }) => (early = value), () => {}); // or the connection is closed
    for (const from of [1, 0]) {
      let text = "";
      for await (const item of c.session("s1").watch(from, { signal })) {
        if (from === 0) assert(item.update, `an event from now on: ${JSON.stringify(item)}`);
        text += deltaOf(item);
        if (text.startsWith("a reply")) break;
      }
      say({ from, text });
    }
    assert.equal(early, undefined);
  },

  // Prints the events of the sessions named, and what reading them ends with.
  async history() {
    for (const session of process.argv.slice(3)) {
      try {
        for await (const e of c.session(session).history(1, { signal })) {
          say({ session, seq: e.seq, type: e.type, runId: e.runId, causationId: e.causationId, time: e.time, data: e.data });
        }
      } catch (err) {
        assert(err instanceof DamagedError, err);
        say({ session, damaged: err.message });
      }
    }
  },

  // Answers what it was shown after the session has begun anew, and then what waits, of which it is told.
  async anew() {
    const o = { signal };
    const s = c.session("s1");
    const approvals = c.approvals(o)[Symbol.asyncIterator]();
    const { value: old } = await approvals.next();
    await told({ streaming: true });
    for (const answer of [() => s.approve(old, "", o), () => s.deny(old, "", o), () => s.approve(old, "", { ...o, args: { v: "2" } })]) {
      await assert.rejects(answer(), (err) => err instanceof RejectedError && err.code === "stale" && /look at the call again/.test(err.message));
    }
    let over = 0;
    let { value: now } = await approvals.next();
    for (; !now.waiting; now = (await approvals.next()).value) {
      assert.deepEqual([now.digest, now.resolved], [old.digest, undefined]);
      over++;
    }
    assert.deepEqual([over, now.seq, now.call], [1, old.seq, old.call]);
    assert.notEqual(now.digest, old.digest);
    await s.approve(now, "", o);
    const { value: end } = await approvals.next();
    assert.deepEqual([end.digest, end.waiting, end.resolved?.approved], [now.digest, false, true]);
    await approvals.return();
    say({ ok: true });
  },

  // Queries where a stream stores them and acknowledges each.
  async stored() {
    const page = await c.sessions({}, { signal });
    await assert.rejects(c.session("nobody").state({ signal }), (err) => err instanceof QueryError && err.code === "not_found");
    say({ ok: Array.isArray(page.sessions) });
  },

  // Sends every dead letter again, and says where and with what headers. The first answer for each subject is lost.
  async letters() {
    const { request } = nc;
    const lost = new Set();
    nc.request = async (subject, payload, o) => {
      const m = await request.call(nc, subject, payload, o);
      if (!subject.startsWith("agent.cmd.") || lost.size === lost.add(subject).size) return m;
      throw Object.assign(new Error("timeout"), { name: "TimeoutError" });
    };
    for (const d of (await c.fleet.dead()).list) {
      const what = await c.fleet.replay(d).then(() => [d.to, ...d.headers.map((h) => h.join(": ")).sort()].join(", "), (err) => err.message);
      say({ text: `${d.message.subject.slice("agent.dead.".length)}: ${what}` });
    }
  },

  // Says what of many dead letters it gets, and what of many answers.
  async crowd() {
    const { count, list } = await c.fleet.dead();
    say({ text: `${count} letters, ${list.length} are shown, ${list[0].text.slice(0, 2)} to ${list.at(-1).text.slice(0, 2)}` });
    const runners = () => c.fleet.runners().then((all) => `${all.length} runners`, (err) => err.message);
    for (let i = 0; i < 3; i++) {
      say({ text: await runners() });
      await told({ streaming: true });
    }
  },

  // Follows a run and the approvals, reads a log of an earlier version, sends a prompt and looks at the fleet, while there
  // are messages with many headers. Says how large the largest headers are that the connection has decoded.
  async headers() {
    const { MsgHdrsImpl } = createRequire(`${process.env.MODULES}/`)("@nats-io/nats-core/internal");
    const { decode } = MsgHdrsImpl;
    let largest = 0;
    MsgHdrsImpl.decode = (bytes) => ((largest = Math.max(largest, bytes.length)), decode(bytes));
    const enough = new AbortController();
    const waits = assert.rejects(c.approvals({ signal: enough.signal }).next(), { name: "AbortError" });
    const seen = [];
    for await (const item of c.session("s1").watch(1, { signal })) {
      if (item.event?.type === "message_start" && item.event.data.role === "assistant") await told({ streaming: true });
      if (item.event) seen.push(item.event.seq);
      if (item.event?.type === "agent_end") break;
    }
    say({ text: `run: ${seen.every((seq, i) => seq === i + 1)}` });
    const old = [];
    for await (const e of c.session(process.argv[3]).history(1, { signal })) old.push(`${e.seq}, ${[...e.correlationId].length} characters`);
    say({ text: `old: ${old}` });
    await told({ streaming: true }); // the log now ends with a message that has many headers
    const run = await c.session("s1").prompt("again", { signal });
    say({ text: `prompt: ${run.sent.at.seq >= seen.length}` });
    for (const d of (await c.fleet.dead()).list) say({ text: `letter: ${d.text}, ${d.why}` });
    say({ text: `profiles: ${(await c.fleet.profiles()).map((p) => p.name)}` });
    say({ text: await c.query(["many"], {}, { signal }).then(JSON.stringify, (err) => err.message) });
    enough.abort();
    await waits;
    say({ text: `decoded at most 5 KiB: ${largest <= 5 << 10 || largest}` });
  },

  async methods() {
    const o = { signal };
    const s = c.session("s1");
    await assert.rejects(s.abort("nothing", o), (err) => err instanceof RejectedError && err.code === "no_run");
    await assert.rejects(s.set("model", { model: 3 }, o), (err) => err instanceof RejectedError && err.code === "invalid");
    await assert.rejects(c.session("nobody").state(o), (err) => err instanceof QueryError && err.code === "not_found");
    assert.throws(() => c.session("a.b"), TypeError);
    await s.set("thinking_level", { thinkingLevel: "low" }, o);

    // Approvals of all sessions: what waits already, what comes, and what does not wait any more.
    const run = await s.prompt("x".repeat(500_000), { ...o, id: "p ü%1" });
    const approvals = c.approvals(o)[Symbol.asyncIterator]();
    const { value: first } = await approvals.next();
    assert.equal(first.session, "s1");
    assert.deepEqual([first.toolName, first.waiting, first.args], ["echo", true, { v: "1" }]);
    await assert.rejects(s.prompt("no", { ...o, whenBusy: "reject" }).then((r) => r.wait(o)), { code: "busy" });
    await assert.rejects(s.approve("c1", "", o), { code: "not_found" });
    const follow = await s.followUp("and then?", o);
    await s.do("cancel_input", { inputId: follow.commandId }, o);
    await assert.rejects(follow.wait(o), (err) => err instanceof WithdrawnError && !err.superseded);
    assert.match(first.digest, /^sha256:[0-9a-f]{64}$/);
    await assert.rejects(s.deny({ ...first, digest: `sha256:${"0".repeat(64)}` }, "", o), { code: "stale" });
    await s.approve(first, "why not", o);
    const { value: over } = await approvals.next();
    assert.deepEqual([over.seq, over.waiting, over.resolved.approved, over.resolved.reason], [first.seq, false, true, "why not"]);
    const result = await run.wait(o);
    assert.deepEqual([result.reason, result.text, result.turns], ["no_tool_calls", "done", 2]);
    assert.equal((await s.run("p ü%1").wait(o)).seq, result.seq);
    assert.equal((await s.prompt("again", { ...o, id: "p ü%1" }).then((r) => r.wait(o))).seq, result.seq);

    const second = await c.session("s2").prompt("go", o);
    const { value: asked } = await approvals.next();
    assert.equal(asked.session, "s2");
    await c.session("s2").deny(asked.call, "no", o); // as by hand: whatever waits under this key
    assert.equal((await approvals.next()).value.resolved.approved, false);
    await approvals.return();
    await second.wait(o);

    await c.session("s3").branch("s1", 0, o);
    const [stats, state, messages] = await Promise.all([s.stats(o), s.state(o), s.messages({ limit: 2 }, o)]);
    assert.deepEqual([stats.toolCalls, state.status, messages.messages.length], [1, "idle", 2]);
    let big;
    for await (const e of s.history(1, o)) if (e.type === "message_end") big ??= e;
    assert.equal(big.data.message.content.at(0).text.length, 500_000);
    assert.equal(typeof big.dataref, "string"); // it is kept in the object store
    const tools = await c.tools(o);
    assert.deepEqual(tools.map((t) => [t.name, t.workers]), [["echo", ["bench"]]]);
    assert.equal((await c.models(o)).length, 2500);
    const family = async () => (await s.tree({}, o)).nodes.map((n) => n.session).sort().join();
    while ((await family()) !== "s1,s3"); // as soon as the index knows it
    for (;;) {
      const { sessions } = await c.sessions({ text: "go" }, o);
      if (sessions.length === 1 && sessions[0].session === "s2" && sessions[0].status === "idle") break;
    }
    say({ ok: true });
  },
};

await scenarios[process.argv[2]]();
await nc.close();
lines.return?.();
process.stdin.destroy();
