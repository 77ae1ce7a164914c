// Package agui serves AG-UI, the protocol between agents and user interfaces, for clients of 1.0 and of 0.0.x: one POST
// of a thread's messages, answered by a stream of events.
//
//   - A thread is a session. The id of a run, which the client chooses, is the id of its prompt: the same run asked for
//     twice is one prompt, and the second stream has a snapshot and the rest.
//   - The log is the truth. Of the messages that a client sends only those of its user behind the last that the log
//     knows are taken, and a MESSAGES_SNAPSHOT tells it the ids of the log. Messages of other roles are not taken;
//     neither is state.
//   - Calls that wait for approval end the stream with the outcome "interrupt"; the next run's resume answers them, by
//     a payload {"approved": true or false, "reason": …, "editedArgs": all of the arguments to use instead}, and its
//     stream follows the run that went on. The same happens with tools of the client: they are those of the session's
//     channel workspace, the stream ends without their
//     result, and the next run brings it, to the same process.
//   - What deltas cannot undo (a reply that was cut off, asked for again, or changed by a hook) is replaced
//     by a snapshot.
//
// A client that leaves ends nothing; POST …/abort ends a run. Every stream ends with RUN_FINISHED or RUN_ERROR, also
// when the runner stops or the log cannot be read. Requests that are refused before a stream begins have a status that
// is no 2xx.
package agui
