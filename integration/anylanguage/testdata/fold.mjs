// Says which tools the calls of a session have where replies that a model was asked to say anew had calls of the same
// ids, as vendors give them that count from the reply's beginning. CONSOLE is where the console's files are, as served.
const { Fold } = await import(`${process.env.CONSOLE}/fold.js`);

const usage = { totalTokens: 1, cost: { total: 0 } };
const asks = (name) => ({ role: "assistant", content: [{ type: "toolCall", id: "call_0", name, arguments: { of: name } }], usage });

const said = (seq, id, message, more = {}) => [
  { seq, type: "message_start", data: { messageId: id, role: "assistant" } },
  { seq: seq + 1, type: "message_end", data: { messageId: id, message, ...more } },
];
const executed = (seq, toolName) => [
  { seq, type: "tool_execution_start", data: { toolCallId: "call_0", toolName, args: { of: toolName } } },
  { seq: seq + 1, type: "tool_execution_end", data: { toolCallId: "call_0", toolName, call: `c${seq}`, result: { content: [] } } },
];

const ways = {
  retried: [...said(1, "m1", asks("read")), { seq: 3, type: "auto_retry_start", data: { messageId: "m1", attempt: 1 } }],
  "another model": [...said(1, "m1", asks("read")), { seq: 3, type: "model_fallback", data: { messageId: "m1" } }],
  compacted: [...said(1, "m1", asks("read")), { seq: 3, type: "compaction_start", data: { messageId: "m1" } }],
  interrupted: [...said(1, "m1", asks("read"), { interrupted: true }), { seq: 3, type: "run_resumed", data: {} }],
};
for (const [way, before] of Object.entries(ways)) {
  const fold = new Fold();
  for (const event of [...before, ...said(4, "m4", asks("bash")), ...executed(6, "bash")]) fold.apply({ event });
  const calls = fold.entries.flatMap((e) => (e.blocks ?? []).map((b) => b.call));
  console.log(`${way}: ${calls.map((c) => `${c.toolName} ${c.state} ${JSON.stringify(c.args)}`).join(", ")}`);
}
