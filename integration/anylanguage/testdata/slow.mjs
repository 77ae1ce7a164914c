// Prints how much of what comes live waits for a reader that does not read, and what it is given once it reads.
import { Tap } from "../../../bus/client/js/follow.js";

const link = { epoch: 0, up: true, onChange: () => () => {}, nc: { subscribe: (_, { callback }) => ((link.comes = (m) => callback(null, m)), {}) } };
const MiB = 1 << 20;

const payload = new Uint8Array(MiB);

/** A message of this size, of which a subject and headers have 100 bytes. */
const message = (size) => ({ data: payload.subarray(0, size - 100), size: () => size });

async function run(what, sizes) {
  const tap = new Tap(link, "agent.live.s1.>");
  const first = () => {
    for (const size of sizes) link.comes(message(size));
  };
  const read = async () => {
    let n = 0, bytes = 0, m;
    for (; (m = await tap.next(0)); n++) bytes += m.size();
    return `${n} of ${sizes.length}, ${(bytes / MiB).toFixed(1)} MiB${m === undefined && (await tap.next(0)) === null ? ", some are missed" : ""}`;
  };
  first();
  console.log(`${what}: ${await read()}`);
  first();
  console.log(`${what} again: ${await read()}`);
}

const times = (n, size) => Array.from({ length: n }, () => size);
await run("large", times(3000, 300_000));
await run("small", times(10_000, 200));
await run("few", times(5, MiB));
