// Package rerun branches a session from one of its events and has the branch go on with other settings, to see whether
// another model would have done better.
//
// [NewPlan] reads the log and says what there is to do: which event the branch is a copy up to, what is sent to it
// then, which settings the run was recorded with, and what its tools have answered. A [Rerun] does it, as a client of
// the runners: it branches, sets and prompts, and follows the run to its end.
//
// # Recorded answers
//
// With recorded answers the branch has the tools of its client only (schemas.Binding), and the client is this process:
// it announces the tools of the recorded run for a workspace of its own and answers their calls from the log, as any
// worker does. So a runner needs nothing new, and one that dies is replaced as always. Nothing is executed.
//
// # Again
//
// All commands have ids that are made of what was asked for. A rerun that is asked for again, with the id of the
// session that it made, sends nothing twice: it answers the calls that wait and follows the run to its end.
package rerun
