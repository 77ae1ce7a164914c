// The state of a deployment: its runners, its queues, and its dead letters.

import { MsgHeaders } from "./inputs.js";
import { isInfo, isProfile, isStatus, read } from "./shapes.js";
import { added, bytesOf, isAnswer, MOST_BYTES, random, text } from "./stored.js";

const MOST_ANSWERS = 1000; // of runners, with MOST_BYTES
const LONGEST = 3000; // ms that answers are awaited while they arrive
const DEAD = "AGENT_DEAD";
const UNKNOWN = 1 << 20; // what a letter counts whose size cannot be read, in bytes
const OF_COMMANDS = /^(ce-[a-z0-9]+|Content-Type|Loopbus-Command|traceparent)$/; // headers that make a command what it is

const OF_RUNNERS = /^(timer|subagent_[a-z]+)$/; // commands that nobody else sends

/**
 * The state of a deployment. The methods need the permissions of an operator.
 * @param {import("./loopbus.js").Client} client
 */
export class Fleet {
  /** @param {import("./loopbus.js").Client} client */
  constructor(client) {
    this.client = client;
    this.link = client.link;
  }

  /**
   * Returns the runners that answer, each {id, ready, partitions, inFlight, sessions, model, version}, ordered by id.
   */
  async runners() {
    const [info, status] = await Promise.all([
      this.#all("$SRV.INFO.loopbus-runner", isInfo), this.#all(`${this.client.prefix}.svc.runner.status`, isStatus)]);
    const own = info.filter((i) => i.metadata.prefix === this.client.prefix);
    return own.map((i) => ({ id: i.metadata.id, model: i.metadata.model, settings: i.metadata.settings, version: i.version,
      ...status.find((s) => s.id === i.metadata.id) })).sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /**
   * The answers of all services that have one, without malformed ones: anybody who may subscribe there can answer.
   * Throws if there are too many.
   */
  async #all(subject, is) {
    const answers = [];
    let bytes = 0;
    let tooMany = false;
    this.link.check();
    const inbox = `${this.link.inbox()}.${random()}`;
    const sub = this.client.nc.subscribe(inbox, { callback: (err, m) => {
      if (err || m.data.length === 0) return;
      if (answers.length < MOST_ANSWERS && (bytes += bytesOf(m)) <= MOST_BYTES) answers.push(m);
      else tooMany = true;
    } });
    this.client.nc.publish(subject, "", { reply: inbox });
    await this.client.nc.flush();
    const end = Date.now() + LONGEST;
    for (let before = -1; before < answers.length && Date.now() < end; ) { // until no more answers arrive
      before = answers.length;
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    sub.unsubscribe();
    if (this.link.denied.has(subject)) throw this.link.denied.get(subject);
    if (tooMany) throw new Error(`${subject} has more than ${MOST_ANSWERS} answers, or ${MOST_BYTES >> 20} MiB of them`);
    return answers.map((m) => read(text(m), is)).filter(Boolean);
  }

  /**
   * Returns the consumers of a stream, each {name, pending, atWork, redelivered}. AGENT_CMD is the inbox, AGENT_TOOL
   * the tool calls.
   */
  async queues(stream) {
    const list = [];
    for (let offset = 0; ; ) {
      const page = await this.link.jetstream(`CONSUMER.LIST.${stream}`, { offset });
      list.push(...(page.consumers ?? []));
      offset += page.limit;
      if (!page.consumers?.length || offset >= page.total) break;
    }
    return list.map((c) => ({ name: c.name, pending: c.num_pending, atWork: c.num_ack_pending, redelivered: c.num_redelivered }));
  }

  /**
   * Returns the newest dead letters, newest first: {seq, reason, stream, subject, deliveries, text, message}, and where
   * and with which headers each may be sent again: {to, headers}, or {why} not. They have 16 MiB at most.
   */
  async dead(limit = 100) {
    const { state } = await this.link.jetstream(`STREAM.INFO.${DEAD}`, {});
    const list = [];
    if (state.messages > 0) {
      const read = (o) => this.link.stored(DEAD, `${this.client.prefix}.dead.>`, o);
      let after = Math.max(0, state.last_seq - limit);
      const newest = [];
      for await (const m of read({ after, headersOnly: true })) newest.unshift(m);
      let bytes = 0;
      const left = newest.findIndex((m) => (bytes += m.unreadable ? UNKNOWN : Number(added(m.headers, "Nats-Msg-Size"))) > MOST_BYTES);
      if (left >= 0) after = newest.splice(left)[0].seq;
      if (newest.length > 0) for await (const m of read({ after })) if (list.push(this.#letter(m)) === newest.length) break;
    }
    return { count: state.messages, list: list.reverse() };
  }

  #letter(m) {
    const of = (name) => m.headers?.get(`Loopbus-Dead-${name}`) ?? "";
    const { prefix, subjects } = this.client;
    const letter = { seq: m.seq, reason: of("Reason"), stream: of("Stream"), deliveries: Number(of("Deliveries")), text: text(m), message: m,
      subject: of("Subject").replace(/\.cmd\.\d+\.(?=[^.]+\.[^.]+$)/, ".cmd.") }; // as the sender published it
    // Who may write a letter may write what it likes into it, but not choose its subject. Only runners write those of commands.
    const session = m.subject.startsWith(`${prefix}.dead.AGENT_CMD.`) && m.subject.split(".").at(-1);
    const kind = /\.([a-z_]+)$/.exec(letter.subject)?.[1];
    const names = m.headers?.keys().filter((name) => OF_COMMANDS.test(name)) ?? [];
    if (m.unreadable) letter.why = "its headers are too large to be read";
    else if (!session) letter.why = "only commands are sent again";
    else if (letter.reason.startsWith("foreign:") || added(m.headers, "Nats-Stream") !== "") letter.why = "no client has sent it";
    else if (OF_RUNNERS.test(kind)) letter.why = "only runners send it";
    else if (letter.subject !== subjects.command(session, kind)) letter.why = `it is no command for ${session}`;
    else if (of("Size") !== "") letter.why = "it was cut";
    else Object.assign(letter, { to: letter.subject, headers: names.flatMap((name) => m.headers.values(name).map((value) => [name, value])) });
    return letter;
  }

  /** Publishes the command in a dead letter to its session again, then deletes the letter. */
  async replay({ seq, to, why, headers, message }) {
    if (!to) throw new Error(`the dead letter cannot be sent again: ${why}`);
    const own = new MsgHeaders();
    for (const [name, value] of headers) own.set(name, value);
    const id = random(); // the session knows the letter's id, of a command that was rejected
    own.set("Loopbus-Command-Id", id);
    own.set("Nats-Msg-Id", id); // an attempt whose answer is lost is repeated, and is no second command
    await this.link.retry(async (timeout) => {
      const ack = (await this.client.nc.request(to, message.data, { headers: own, timeout })).json();
      if (ack.error) throw new Error(ack.error.description);
    });
    await this.discard({ seq });
  }

  /** Deletes a dead letter. */
  discard(letter) {
    return this.link.jetstream(`STREAM.MSG.DELETE.${DEAD}`, { seq: letter.seq, no_erase: true });
  }

  /** Returns what the sessions of a profile used in the current period of its budget: {tokens, cost}. */
  async spent({ name, budget }, now = new Date()) {
    const day = now.toISOString().slice(0, 10);
    const period = new Map([["day", day], ["month", day.slice(0, 7)]]).get(budget?.per) ?? "total";
    const counter = async (unit) => {
      const m = await this.link.last("AGENT_SPENT", `${this.client.prefix}.spent.${name}.${period}.${unit}`);
      return m ? Number(JSON.parse(text(m)).val) : 0;
    };
    const [tokens, microdollars] = await Promise.all([counter("tokens"), counter("microdollars")]);
    return { tokens, cost: microdollars / 1e6 };
  }

  /**
   * Returns the profiles by name. It skips messages that are answers of servers to forged requests, not profiles. A
   * malformed profile has only its name, and the description "cannot be read".
   */
  async profiles() {
    const list = new Map();
    const bucket = "$KV.agent_profiles.";
    for await (const m of this.link.stored("KV_agent_profiles", `${bucket}>`)) {
      const name = m.subject.slice(bucket.length);
      if (isAnswer(m)) continue;
      list.delete(name); // an older value
      if (added(m.headers, "KV-Operation") !== "") continue;
      list.set(name, { ...(read(text(m), isProfile) ?? { description: "cannot be read" }), name });
    }
    return [...list.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }
}
