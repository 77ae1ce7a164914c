// Package compaction decides what a session that grows too long keeps, what a model is asked to summarise, and what
// comes of its replies; and the same for a branch that is left. It is pure: no clock, goroutine, I/O or random number.
// The caller asks the model and writes the events.
//
// # What calls it, in order
//
// Compaction: [EstimateContext] and [ShouldCompact] say when; [Prepare] chooses the cut; [Preparation.Requests] says
// what the model is asked; [Preparation.Summarize] takes its replies. The context from then on is [Context] of the
// entries with the compaction at their end.
//
// Leaving a branch: [Left] says what is left behind; [PrepareBranch] chooses what fits; [BranchPreparation.Request] and
// [BranchPreparation.Summarize] are as above.
//
// [ToLLM] turns messages with roles that no model knows into those that models know.
//
// # Where the rules come from
//
// The rules are those of pi 0.73.1, which recorded cases hold (sessionfile, TestSessionCases). Four are different on
// purpose:
//
//   - A reply that is empty, cut off at its output limit, or aborted is no summary ([ErrEmpty], [ErrCutOff],
//     [ErrAborted]). pi takes all three for one, and what they stand for is lost.
//   - A reply that tells no usage at all is not believed to have had an empty context: [EstimateContext] goes on to the
//     one before it.
//   - [EstimateContextSince] does not believe usage from before a compaction, which tells the size of the context that
//     is left out.
//   - The wording of the instructions is our own.
package compaction
