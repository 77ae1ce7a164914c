// Package crashpoints stops a runner, or a toolworker, at every point of a run at which it has an effect, and checks
// that the next one finishes the run as if no fault had happened.
//
// The runner is real: a driver, a log and an inbox on a NATS server, whose connections go through a gateway (package
// integration/internal/wire) that reads every message. A point is one such message: an append, a dispatch, an
// acknowledgement, a cancellation, a timer; the result and the acknowledgement of a worker. A moment in the work of the
// model or of a tool is a point without a message. The tests first run each scenario undisturbed and count its points.
// Then they run it again for every point and every fault:
//
//   - killed before: the message is lost, and the gateway drops all later messages of the runner;
//   - killed after: the server handles the message, and the gateway drops the answer and all later messages;
//   - cut before and cut after: the same, but only the connections are lost: the runner lives on, as it does when an
//     acknowledgement is lost;
//   - frozen: the gateway holds all messages back until another runner has finished the run, and then forwards them.
//
// A killed runner does not clean up: the next runner deletes its consumer. The test only deletes the killed runner's
// entry in the bucket of live runners, instead of waiting some seconds until it expires.
//
// The tests compare the outcome with that of the undisturbed run. While a scenario runs, a witness at the gateway
// checks each message against the log at that moment: no dispatch before its tool_execution_start, no acknowledgement
// before the effect of the command, and no acknowledgement of the last message in flight while the session is awake.
//
// By default the tests try a seeded sample of single faults, and one of two crashes in a row. To try all, which takes
// some minutes:
//
//	go test ./integration/crashpoints -timeout 30m -crashpoints.all
//
// -crashpoints.only selects scenarios, -run with the name of a subtest selects one fault, and -crashpoints.seed
// repeats a sample.
package crashpoints
