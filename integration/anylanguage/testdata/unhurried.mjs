// Prints how many messages the client reads over a slow line, on which one arrives every four seconds, and what it says
// when no more arrive. Time is simulated.
import { Link } from "../../../bus/client/js/stored.js";

let now = 0;
const timers = new Set();
Date.now = () => now;
globalThis.setTimeout = (f, ms) => {
  const timer = { f, at: now + ms };
  timers.add(timer);
  return timer;
};
globalThis.clearTimeout = (timer) => timers.delete(timer);
function tick(ms) {
  now += ms;
  for (const timer of [...timers]) if (timer.at <= now && timers.delete(timer)) timer.f();
}

const total = 10;
let arrive; // delivers a message to the reader
const nc = {
  isClosed: () => false,
  async *status() { await new Promise(() => {}); },
  request: async () => ({ json: () => ({ num_pending: total }) }),
  subscribe: (_, { callback }) => {
    arrive = (n) => callback(null, { subject: "s", reply: `$JS.ACK.S.c.1.${n}.${n}.0.${total - n}`, data: new Uint8Array(1) });
    return { unsubscribe() {} };
  },
  publish() {},
};

async function read(arriving) {
  let got = 0;
  arrive = undefined;
  let over;
  const reader = (async () => {
    for await (const _ of new Link(nc, { api: "$JS.API.", requestTimeout: 1000 }).stored("S", "s")) got++;
    return "all";
  })().then((what) => (over = what), (err) => (over = err.message));
  while (!arrive) await new Promise(setImmediate);
  for (let n = 1; !over; n++) {
    tick(4000);
    if (n <= arriving) arrive(n);
    await new Promise(setImmediate);
  }
  await reader;
  console.log(`${got} of ${total}: ${over}`);
}

await read(total);
await read(3);
