// The types of what others wrote. One entry of a bucket or one answer that does not fit is left out, so that it cannot
// take the others with it. Only the types are checked that code relies on: runners and workers check the whole schemas.

export const isObject = (v) => typeof v === "object" && v !== null && !Array.isArray(v) && !(v instanceof Number);
export const isText = (v) => typeof v === "string";
const isNumber = (v) => typeof v === "number" || v instanceof Number; // an ExactNumber is an object

/** Also accepts that there is none. */
export const maybe = (is) => (v) => v === undefined || is(v);
export const listOf = (is) => (v) => Array.isArray(v) && v.every(is);
/** Accepts an object whose members all pass their checks. */
export function having(members) {
  const all = Object.entries(members);
  return (v) => isObject(v) && all.every(([name, is]) => is(v[name]));
}

/** As JSON.parse, but undefined for what is no JSON or does not pass a check. */
export function read(json, is, parse = JSON.parse) {
  try {
    const value = parse(json);
    return is(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const [text, number] = [maybe(isText), maybe(isNumber)];

export const isAnnouncement = having({ name: isText, worker: isText, since: isText, version: text, workspace: text, label: text,
  description: text, effect: text });

export const isProfile = having({ description: text, systemPrompt: text, workspace: text, tools: maybe(listOf(isText)),
  scopes: maybe(listOf(isText)), model: maybe(having({ api: text, provider: text, id: isText })),
  budget: maybe(having({ maxTokens: number, maxCost: number, warnShare: number, per: text })) });

export const isInfo = having({ version: text, metadata: having({ id: isText, prefix: isText, model: text, settings: text }) });
export const isStatus = having({ id: isText, inFlight: number, sessions: number });

export const isModel = having({ provider: isText, id: isText, api: text, contextWindow: number, maxTokens: number,
  rates: maybe(having({ input: number, output: number, cacheRead: number, cacheWrite: number })) });

export const isSession = having({ session: isText, lastActivity: isText, seq: number, turns: number, queued: number, title: text,
  lastMessage: text, parent: maybe(having({ session: isText })) });

export const isAsked = having({ session: isText, seq: isNumber, call: isText, toolName: text, reason: text, by: text });
