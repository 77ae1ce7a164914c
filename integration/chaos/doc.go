// Package chaos shows that loopbus keeps its promises while its processes, its servers and the connections between them
// fail at random. Its tests start three NATS servers, three runners and some toolworkers as processes of their own,
// send seeded random programs of commands to fifty sessions, and meanwhile kill, stop, freeze and cut off whatever the
// seed says. Then everything is healed, and what clients saw, what the logs say and what the tools counted is checked
// against the promises (docs/reliability.md).
//
// Package program makes commands and faults out of a seed, package process keeps the processes, package proxy stands
// between each process and its servers, and package history holds the checker.
package chaos
