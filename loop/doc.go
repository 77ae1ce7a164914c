// Package loop is the agent loop as a value: [State] is a fold over a session's events ([State.Apply]), [Next] chooses
// the next step from it, and [Accept] says what a command does to it. There is no clock, goroutine, I/O, random number
// or environment in here: ids, times, hook decisions, model output and tool output enter through events, so the fold is
// the same live and on replay, bit for bit.
//
// A driver (package loop/driver, or one of your own) has these duties, in this order:
//
//  1. Ask [Next] about the state after every event it knows of; remember nothing else between steps.
//  2. Give every event the sequence State.Seq+1, the session, a time, and the ids from [State.Envelope]; append it to
//     the log; apply it.
//  3. [Emit]: append that one event. [StartRun]: resolve the run's configuration and append agent_start. [CallModel]:
//     call the model and append message_start and message_end of its reply; the call need not wait for the log.
//     [RunTools]: begin the calls named, see there. [Rest]: nothing to do until a command or a result arrives.
//  4. Decide and append in one critical section: between Next and the append of what it chose no other event may come.
//  5. Never dispatch a tool call before its tool_execution_start and all before it are stored; never acknowledge a
//     command before what it did is stored; never publish an update before the event it belongs to is stored.
//
// Every prefix of a log is a state that Next can go on from. That is the whole of recovery.
//
// What the loop does in each situation is fixed by the conformance cases of the reference implementation, pi, in the
// testdata of package agent. docs/behaviour.md lists the rules.
package loop
