// Uploads inputs that are too large for a command; the command then refers to them.

import { random } from "./stored.js";

const INLINE = 400 << 10; // bytes of data that a command may contain itself
const MOST = 8 << 20;
const CHUNK = 128 << 10;
const BUCKET = "agent_inputs";
const KINDS = new Set(["prompt", "steer", "follow_up"]);

const encoder = new TextEncoder();
const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
const base64url = (binary) => btoa(binary).replaceAll("+", "-").replaceAll("/", "_"); // with its padding

/** Reports whether the data of a command must be uploaded. @param {string} json */
export function isLarge(kind, json) {
  return KINDS.has(kind) && json.length > INLINE / 4 && encoder.encode(json).length > INLINE;
}

/**
 * Stores data as an object under a name that nobody can guess, without reading the bucket. Returns the headers of a
 * command that refers to it; the caller adds the attributes of the command.
 */
export async function upload(link, json, signal) {
  const data = encoder.encode(json);
  if (data.length > MOST) throw new Error(`the input has ${data.length} bytes, the limit is ${MOST}`);
  if (!globalThis.crypto?.subtle) throw new Error("an input over 400 KiB can be sent only by a page loaded over https or from localhost");
  const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  const name = `${hex(sum)}-${random()}`;
  return link.retry(async (timeout) => {
    const nuid = random();
    for (let at = 0; at < data.length; at += CHUNK) {
      signal?.throwIfAborted();
      await store(link, `$O.${BUCKET}.C.${nuid}`, data.subarray(at, at + CHUNK), { timeout });
    }
    await store(link, `$O.${BUCKET}.M.${base64url(name)}`, JSON.stringify({
      name, bucket: BUCKET, nuid, size: data.length, chunks: Math.ceil(data.length / CHUNK), mtime: new Date().toISOString(),
      options: { max_chunk_size: CHUNK }, digest: `SHA-256=${base64url(String.fromCharCode(...sum))}`,
    }), { timeout });
    const refers = new MsgHeaders();
    refers.set("ce-dataref", `nats://${BUCKET}/${name}`);
    return refers;
  }, { signal });
}

/** Message headers in the form that connections accept, without importing the class of a connection. */
export class MsgHeaders {
  #lines = "";

  set(key, value) { this.#lines += `${key}: ${value}\r\n`; }

  encode() { return encoder.encode(`NATS/1.0\r\n${this.#lines}\r\n`); }
}

async function store(link, subject, data, options) {
  const ack = (await link.nc.request(subject, data, options)).json();
  if (ack.error) throw Object.assign(new Error(`upload: ${ack.error.description}`), { name: "JetStreamError", status: ack.error.code });
}

/** Adds the CloudEvents attributes of an event without data to headers. */
export function attributes(headers, event) {
  const plain = (value) => value.replace(/[^\x21-\x7e]|["%]/gu, (c) => Array.from(encoder.encode(c), (b) => `%${b.toString(16).toUpperCase().padStart(2, "0")}`).join(""));
  for (const [key, value] of Object.entries(event)) {
    if (value !== undefined && key !== "data") headers.set(`ce-${key}`, plain(value));
  }
  return headers;
}
