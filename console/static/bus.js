// The connection of the page. If the server requires credentials, they are kept for this tab only.

import { client } from "./client/loopbus.js";
import { wsconnect } from "./vendor/nats.js";

const KEPT = "loopbus.credentials";

/** The server requires credentials, or has refused the ones given. */
export class CredentialsError extends Error {}

const kept = () => JSON.parse(sessionStorage.getItem(KEPT) ?? "{}");

export const forget = () => sessionStorage.removeItem(KEPT);

/** Whether the user may have answers sent below a prefix, as `runner permissions` gives each user one of its own. */
async function mayHear(nc, prefix) {
  let refused;
  const sub = nc.subscribe(`${prefix}.console`, { callback: (err) => { refused ||= err; } });
  await nc.flush();
  if (!refused) sub.unsubscribe();
  return !refused;
}

/** Connects with the given credentials, or the kept ones: {user, pass} or {token}. */
export async function open(credentials) {
  const config = await fetch("/config.json").then((r) => (r.ok ? r.json() : {})).catch(() => ({}));
  const url = new URL("nats", location.href);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  url.hash = url.search = "";
  try {
    const nc = await wsconnect({
      servers: url.href, name: "loopbus console", maxReconnectAttempts: -1, reconnectTimeWait: 250, reconnectJitter: 250,
      ignoreClusterUpdates: true, ...(credentials ?? kept()),
    });
    const { user } = credentials ?? kept();
    if (/^[\w-]+$/.test(user) && await mayHear(nc, `_INBOX_${user}`)) nc.options.inboxPrefix = `_INBOX_${user}`;
    if (credentials) sessionStorage.setItem(KEPT, JSON.stringify(credentials));
    return { config, bus: client(nc, { prefix: config.prefix, source: "/loopbus/console" }) };
  } catch (err) {
    if (/authoriz|authentication/i.test(`${err.name} ${err.message} ${err.cause?.name}`)) {
      throw new CredentialsError("The server requires a user and password, or a token.");
    }
    throw err;
  }
}
