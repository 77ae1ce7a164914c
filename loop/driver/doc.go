// Package driver carries out the steps that package loop chooses, for one session: a [Driver] works over a [Log], a
// [Model] and [Tools] of your choice. Package host has one driver for each session of a runner, package agent one for a
// conversation in this process.
//
// The interfaces it needs are declared here, and small; packages eventstore, bus and tools provide them, and so can
// you.
//
// # Rules of a driver
//
// Choosing a step and appending its event are one critical section, so no event comes between the two. Whatever others
// can see of an event waits until it is stored ([Log].Flush): the dispatch of a tool call, the acknowledgement of a
// command, the deltas of a reply. A model never waits for the log.
//
// The goroutine that delivers a message drives its session until it is at rest, if nobody else does ([Driver.Handle]).
// There is no other scheduler, and a session at rest has no goroutine and no timer.
//
// # Failures
//
// Once a log refuses an event, the driver stops without another effect and has to be given up: its state may be ahead
// of the log. Such an error is a [LostError]; it wraps [ErrConflict] where another writer owns the session. The next
// process that loads the session folds its log and goes on. So it is after a panic. Any other error ends one delivery,
// whose message is to be delivered again; the driver goes on from the state it has, as from a log ([Lost]).
//
// An error or panic of the model's stream or of a hook ends the run with a failure message, and an error, panic or
// timeout of a tool becomes the call's error result. Neither ends the process.
//
// # Behaviour
//
// What happens in each situation, to the event, is tested by recorded scenarios of the reference implementation ("pi"),
// in the testdata of package agent. Comments name the rule or finding where it is not obvious. Differences that are
// meant: a reply cut off by its output limit has none of its calls executed, agent_end tells why the run ended, and on
// a bus an abort ends the run without asking the model again.
package driver
