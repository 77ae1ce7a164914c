// Package loop is the agent loop as a value. [State] is a fold over a session's events ([State.Apply]); [Next] chooses
// the next step from it; [Accept] returns the events that a command leads to. The package has no clock, goroutine, I/O,
// random number or environment. Ids, times, hook decisions, model output and tool output enter through events, so the
// fold is the same live and on replay, bit for bit.
//
// A driver (package loop/driver, or your own) has these duties, in this order:
//
//  1. Ask [Next] about the state after every event, and remember nothing else between steps.
//  2. Give every event the sequence State.Seq+1, the session, a time, and the ids from [State.Envelope]; append it to
//     the log; apply it.
//  3. [Emit]: append that event. [StartRun]: resolve the run's configuration and append agent_start. [CallModel]: call
//     the model and append message_start and message_end of its reply; the call need not wait for the log. [RunTools]:
//     begin the named calls, as its comment says. [Rest]: do nothing until a command or a result arrives. The other
//     steps say in their comments what to do.
//  4. Choose and append in one critical section: no other event may come between Next and the event it chose.
//  5. Dispatch no tool call before its tool_execution_start and all events before it are stored. Acknowledge no command
//     before its effect is stored. Publish no update before the event it belongs to is stored.
//
// Every prefix of a log is a state from which Next continues. Recovery needs nothing else.
//
// The conformance cases of the reference implementation, pi, in the testdata of package agent fix what the loop does in
// each situation. docs/behaviour.md lists the rules.
package loop
