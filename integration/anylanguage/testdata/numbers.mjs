// Prints which numbers a program that uses the JavaScript client, or shows something in the console, gets and sends.
import assert from "node:assert/strict";
import { client, ExactNumber, parse, stringify } from "../../../bus/client/js/loopbus.js";
import { eventsOf } from "../../../bus/client/js/log.js";

// What JavaScript writes as it was written, as is all that Go writes, are ordinary numbers.
const ordinary = "[0,-1,9007199254740991,12345678901234567000,0.1,1e-7,1.5e+300,1e+21,5e-324]";
for (const n of parse(ordinary)) assert.equal(typeof n, "number");
assert.equal(stringify(parse(ordinary)), ordinary);

// Everything else keeps its text, wherever it is.
const odd = ["12345678901234567890", "-9007199254740993", "0.1000000000000000055511151231257827", "1.0", "1.50", "-0", "-0.0",
  "0e5", "1e400", "-1E+400", "1e-400", "1E2", "1e2", "1e-07", "1e21", "100000000000000000000000"];
for (const text of odd) {
  const n = parse(text);
  assert(n instanceof ExactNumber);
  assert.deepEqual([n.text, `${n}`, n + 1, n < 5], [text, text, Number(text) + 1, Number(text) < 5]);
  for (const json of [text, `[${text}]`, `{"a":${text}}`, `{"__proto__":${text}}`, `[{"a":[${text},${text}]},"${text}",${text}]`,
    `{"\\\\":${text},"\\"${text}":"\\\\\\"${text}","":""}`, `["\\\\",${text},"\\\\\\\\\\"",${text}]`]) {
    assert.equal(stringify(parse(json)), json);
  }
}
assert.equal(stringify(parse(' { "a" : 1.0 , "b":[ -0\n,\t2 ] } '), 2), '{\n  "a": 1.0,\n  "b": [\n    -0,\n    2\n  ]\n}');
assert.equal(stringify(parse('{"a":1.0,"a":2.0}')), '{"a":2.0}'); // as the runner decides
assert.equal(stringify({ ...parse('{"a":1.0,"b":1}'), b: 2 }), '{"a":1.0,"b":2}');
assert.equal(stringify(undefined), undefined);
for (const bad of ["", "01", "1.", "-", ".5", "+1", "[1.0", '{"a":1.0,}', '"1.0', "1.0 2.0"]) assert.throws(() => parse(bad), SyntaxError);
for (const inside of ["1", "1.0"]) assert.equal(parse("[".repeat(100_000) + inside + "]".repeat(100_000)).length, 1);
for (const c of ["x", "\n", '"', "\\"]) {
  const text = c.repeat(20 << 20);
  assert.equal(parse(JSON.stringify([text, 1]))[0], text);
}

// Whoever does not know of it gets no other digits either.
assert.equal(JSON.stringify(parse("[1.0]")), JSON.rawJSON ? "[1.0]" : '["1.0"]');
JSON.rawJSON = undefined;
assert.equal(JSON.stringify(parse("[1.0]")), '["1.0"]');

const args = '{"id":12345678901234567890,"n":1}';
const encoded = (text) => new TextEncoder().encode(text);
const header = (key, value) => ({ get: (k) => (k === key ? value : "") });
const [event] = eventsOf("s1", { headers: header("Loopbus-Commit", "v2 1-1"), data: encoded(
  `[{"id":"s1/1","type":"dev.loopbus.tool_execution_start.v1","data":{"args":${args}}}]`) });
console.log(`event: ${stringify(event.data.args)}`);
const sent = async (data, answer) => {
  let body;
  const nc = { isClosed: () => false, async *status() { await new Promise(() => {}); },
    async request(_, payload) { body = payload; return { data: encoded(answer), json: () => JSON.parse(answer) }; } };
  return { result: await data(client(nc)), body };
};
console.log(`query: ${stringify((await sent((c) => c.query(["approvals"]), `{"approvals":[{"args":${args}}]}`)).result)}`);
const command = await sent((c) => c.session("s1").send("approve", { call: "c1", args: { ...event.data.args, n: 2 } }, { id: "a" }), '{"seq":1}');
console.log(`command: ${stringify(parse(command.body).data)}`);
