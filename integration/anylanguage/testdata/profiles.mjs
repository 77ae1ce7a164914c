// Says which profiles the client sees in a bucket where servers have answered.
import { Fleet } from "../../../bus/client/js/fleet.js";

const put = (name, value, headers = {}) => ({ subject: `$KV.agent_profiles.${name}`, data: new TextEncoder().encode(value),
  headers: { values: (key) => (key in headers ? [headers[key]] : []) } });
const answer = (name) => put(name, '{"stream":"AGENT_UPD","seq":7,"duplicate":true}');

const stored = [
  put("coder", '{"description":"old"}'), put("coder", '{"description":"new"}'), answer("coder"), put("coder", ""),
  put("coder", '{"description":"of a session"}', { "Nats-Stream": "AGENT_EVT" }),
  put("coder", '{"type":"io.nats.jetstream.api.v1.stream_info_response"}'),
  put("gone", "{}"), put("gone", "", { "KV-Operation": "DEL" }), answer("gone"),
  answer("never"), put("broken", "{"),
];
const link = { async *stored() { yield* stored; } };
for (const p of await new Fleet({ link }).profiles()) console.log(`${p.name}: ${p.description}`);
