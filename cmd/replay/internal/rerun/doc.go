// Package rerun branches a session from one of its events and continues the branch with other settings, to see whether
// another model would have done better.
//
// [NewPlan] reads the log and returns the plan: up to which event the branch is a copy, which input is sent to it,
// which settings the run was recorded with, and the recorded answers of its tools. A [Rerun] carries it out as a client
// of the runners: it creates the branch, sets the configuration, sends the prompt, and follows the run to its end.
//
// # Recorded answers
//
// With recorded answers the branch has only the tools of its client (schemas.Binding), and the client is this process:
// it announces the tools of the recorded run for its own workspace and answers their calls from the log, as any worker
// does. So runners need no support for it, and a lost runner is replaced as usual. No tool is executed.
//
// # Repetition
//
// The ids of all commands are derived from the request. If a rerun is repeated with the id of the session that it has
// created, no command is applied twice: the rerun answers the waiting calls and follows the run to its end.
package rerun
