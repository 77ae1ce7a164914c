// Package compaction decides which part of a long session to keep, builds the requests to a model for a summary of the
// rest, and makes the summary from its replies. It does the same for a branch that is left. The package is pure: it has
// no clock, goroutine, I/O or random number. The caller calls the model and writes the events.
//
// # Order of calls
//
// Compaction: [EstimateContext] and [ShouldCompact] decide when; [Prepare] chooses the cut; [Preparation.Requests]
// returns the requests; [Preparation.Summarize] takes the replies. From then on the context is [Context] of the entries
// with the compaction as the last one.
//
// Leaving a branch: [Left] returns the entries that are left; [PrepareBranch] chooses those that fit; then
// [BranchPreparation.Request] and [BranchPreparation.Summarize], as above.
//
// [ToLLM] converts messages with roles that no model knows into messages that models know.
//
// # Where the rules come from
//
// The rules are those of pi 0.73.1, as recorded cases test (sessionfile, TestSessionCases). Four differ on purpose:
//
//   - A reply that is empty, cut off at its output limit, or aborted is no summary ([ErrEmpty], [ErrCutOff],
//     [ErrAborted]). pi accepts all three, and the messages that they stand for are lost.
//   - A reply without any usage does not mean that the context was empty: [EstimateContext] uses the reply before it.
//   - [EstimateContextSince] ignores usage from before a compaction, because it includes the context that was cut off.
//   - The instructions have a different wording.
package compaction
