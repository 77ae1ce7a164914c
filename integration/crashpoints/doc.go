// Package crashpoints stops a runner, or a toolworker, at every point of a run at which it has an effect, and wants the
// next one to finish the run as if nothing had happened.
//
// What is stopped is real: a driver, a log and an inbox on a NATS server, whose connections go through a gateway
// (package integration/internal/wire) that sees every message. A point is one such message: an append, a dispatch, an
// acknowledgement, a cancellation, a timer; the result and the settlement of a worker; or a moment of the model's or a
// tool's work, which needs no message. First each scenario is run undisturbed and its points are counted. Then it is
// run again for every point and every fault:
//
//   - killed before: the message is lost, and nothing of the runner passes from then on;
//   - killed after: the server has handled the message, no answer is sent, nothing passes from then on;
//   - cut before and cut after: the same, but only the connections are lost and the runner lives, as it does when an
//     acknowledgement is lost;
//   - frozen: nothing passes until another runner has finished the run; then everything that was stopped passes.
//
// A runner that was killed leaves without a goodbye: the next one deletes its consumer. Only its entry among the live
// runners is taken out by the test, in place of the seconds until it expires.
//
// The end is compared with that of the undisturbed run. While a scenario runs, a witness at the gateway holds each
// message against what is stored at that moment: no dispatch before its tool_execution_start, no acknowledgement before
// the effect, and none of the last message in flight while the session is awake.
//
// By default a seeded sample is tried, and another of two crashes in a row. All of it, which takes some minutes:
//
//	go test ./integration/crashpoints -timeout 30m -crashpoints.all
//
// -crashpoints.only chooses scenarios. One fault is tried with -run and the name of its test. -crashpoints.seed repeats
// a sample.
package crashpoints
