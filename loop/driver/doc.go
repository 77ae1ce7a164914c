// Package driver carries out the steps that package loop chooses. It comes in four sizes:
//
//   - [Host] drives any number of sessions, each from its log, as the messages of an inbox are delivered to it. This is
//     what a runner is made of.
//   - [Driver] drives one session over a [Log], a [Model] and [Tools] of your choice.
//   - [Agent] is a conversation in this process, without NATS: prompt, steer, follow up, abort, subscribe.
//   - [RunLoop] and [ContinueLoop] are a single run without queues.
//
// The interfaces it needs are declared here, and small; packages eventstore, bus and tools provide them, and so can you.
//
// # What a driver keeps to
//
// Choosing a step and appending its event are one critical section, so no event comes between the two. Whatever others
// can see of an event waits until it is stored ([Log].Flush): the dispatch of a tool call, the acknowledgement of a
// command, the deltas of a reply. Nothing keeps a model waiting for the log.
//
// The goroutine that delivers a message drives its session until it is at rest, if nobody else does ([Driver.Handle]).
// There is no other scheduler, and a session at rest has no goroutine and no timer.
//
// # Failures
//
// Once a log refuses an event, the driver stops without another effect and has to be given up: its state may be ahead
// of the log. Such an error is a [LostError]; it wraps [ErrConflict] where another writer holds the session. Whoever
// takes the session up next folds its log and goes on.
//
// An error or panic of the model's stream or of a hook ends the run with a failure message, and an error, panic or
// timeout of a tool becomes the call's error result. Neither ends the process.
//
// # Behaviour
//
// What happens in each situation, to the event, is held by recorded scenarios of the reference implementation ("pi"),
// in testdata. Comments name the rule or finding where it is not obvious. Differences that are meant: a reply cut off by
// its output limit has none of its calls executed, agent_end tells why the run ended, and on a bus an abort ends the
// run without asking the model again.
package driver
