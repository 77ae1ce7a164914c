// Package chaos tests that loopbus keeps its promises while its processes, its servers and the connections between
// them fail at random. Its tests start three NATS servers, three runners and some toolworkers as separate processes,
// and send seeded random programs of commands to fifty sessions. In the meantime they kill, stop, freeze and cut off
// the processes that the seed selects. Then all faults end, and the tests check the acknowledgements that clients
// received, the logs, and the executions that tools counted against the promises (docs/reliability.md).
//
// Package program derives commands and faults from a seed, package process starts and signals the processes, package
// proxy connects each process to its servers, and package history checks the outcome.
package chaos
