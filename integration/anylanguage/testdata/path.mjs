// Prints the messages that the console shows after a move back to an entry that it does not show, and says which are on a
// branch that was left. CONSOLE is where the console's files are, as served.
const { Fold } = await import(`${process.env.CONSOLE}/fold.js`);

const user = (seq) => ({ seq, type: "message_end", data: { messageId: `m${seq}`, message: { role: "user", content: `text ${seq}` } } });
const hidden = (seq, display = false) => ({ seq, type: "custom_message", data: { customType: "note", content: "note", display } });
const back = (seq, keep, more) => ({ seq, type: "leaf", data: { keep, ...more } });
const moves = {
  "to a hidden message": [user(1), hidden(2), user(3), back(4, "e2")],
  "to a branch's summary": [user(1), user(2), back(3, "m1", { summary: { summary: "two" } }), user(4), back(5, "e3")],
  "to a compaction": [user(1), user(2), { seq: 3, type: "compaction_end", data: { firstKeptEntryId: "m2" } }, user(4), back(5, "e3")],
  "to a branch with a hidden message": [user(1), hidden(2), user(3), back(4, "m1"),
    back(5, "m1", { entries: [{ id: "e2", message: { role: "custom", ...hidden(2).data } }, { id: "m3", message: user(3).data.message }] })],
  "in a copy": [{ seq: 1, type: "session_branched", data: { session: "s0", seq: 9,
    messages: [user(1).data.message, { role: "custom", ...hidden(2).data }, { role: "custom", ...hidden(2, true).data }] } }, user(2), back(3, "b1.2")],
};
for (const [way, events] of Object.entries(moves)) {
  const fold = new Fold();
  for (const event of events) fold.apply({ event });
  console.log(`${way}: ${fold.entries.filter((e) => e.kind === "message").map((e) => e.key + (e.away ? " away" : "")).join(", ")}`);
}
