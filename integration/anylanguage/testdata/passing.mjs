// Prints which errors of nats-core the client treats as transient. MODULES is where its NATS
// client is installed.
import { createRequire } from "node:module";
import { isTransient } from "../../../bus/client/js/stored.js";

const nats = createRequire(`${process.env.MODULES}/`)("@nats-io/transport-node");

const errors = {
  nobody: new nats.NoRespondersError("a.subject"),
  "nobody, of a request": new nats.RequestError("x", { cause: new nats.NoRespondersError("a.subject") }),
  late: new nats.TimeoutError(),
  lost: new nats.ConnectionError("disconnect"),
  closed: new nats.ClosedConnectionError(),
  denied: new nats.PermissionViolationError("x", "publish", "a.subject"),
};
for (const [name, err] of Object.entries(errors)) console.log(`${name}: ${isTransient(err)}`);
