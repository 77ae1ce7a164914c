// Package agui serves AG-UI, the protocol between agents and user interfaces, for clients of version 1.0 and of
// 0.0.x: a POST with a thread's messages, answered by a stream of events.
//
//   - A thread is a session. All that a request has takes effect, once: first results of the client's tools, then
//     answers to approvals, then messages, as one prompt. The stream has all that the session does until the prompt's
//     run ends; without new messages, until the run under way ends, and those of the prompts that wait.
//   - The id of a prompt is made of its last message's id and content. Who sends a message again, in any run, gets a
//     snapshot and the rest. A message that the session has refused was not sent.
//   - The log is authoritative. Of the messages that a client sends, only the user messages after the last reply and
//     after the last one that the log knows are used, and a MESSAGES_SNAPSHOT tells the client the ids of the log.
//     Messages of other roles, and state, are ignored.
//   - If calls wait for approval, the stream ends with the outcome "interrupt"; the next run's resume answers them with
//     a payload {"approved": true or false, "reason": …, "editedArgs": replacement for all arguments}, and its stream
//     follows the run, which continues. Tools of the client work alike: they belong to the session's channel workspace,
//     the stream ends without their result, and a later run brings it, to the same process.
//   - What deltas cannot undo (a reply that was cut off, retried, or changed by a hook) is replaced by a snapshot.
//
// A client that disconnects stops nothing; POST …/abort ends a run. Every stream ends with RUN_FINISHED or RUN_ERROR,
// also when the runner stops or the log cannot be read. Requests refused before a stream begins have a status other
// than 2xx.
package agui
