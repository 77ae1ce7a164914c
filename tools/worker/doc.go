// Package worker serves tools as queues on NATS (docs/tool-protocol.md). [Serve] is all that most programs need.
//
// A [Worker] announces its tools in the bucket agent_tools and takes the calls that wait at
// agent.tool.<tool>.<session>.<call>, each only when it has a free slot (backpressure). For each it publishes partial
// results at agent.live.<session>.update, then exactly one result to the session's inbox,
// agent.cmd.<session>.tool_result, and only when that is stored acknowledges the call. It stops a call when somebody
// publishes to agent.cancel.<session>.<call>.
//
// # Guarantees
//
// A call that is acknowledged has its result in the session's inbox. A call may be delivered, and answered, more than
// once: results of one call carry the same message id and the same command id, and the session takes the first
// (deduplication).
//
// A tool that is not safe to repeat is executed at the first delivery of a call only. At any later delivery nobody can
// know how far the first one came, so the result is an error that says so.
//
// # Callers that are no sessions
//
// The answer to a request with a replyTo is sent there and nowhere else, and is not stored. Only subjects below
// agent.reply and inboxes of NATS clients are taken.
//
// # Failures
//
// A request that cannot be understood is answered with an error, so that the run goes on. If not even its session and
// call are legal, the handler fails and the message is redelivered with a growing delay (back-off), until it is kept in
// AGENT_DEAD at the tenth delivery. A result that cannot be stored is retried until it is; only when the worker has to
// stop before that is the call nak'd.
//
// # Graceful shutdown
//
// When its context ends, a worker withdraws its announcements, takes no more calls, and lets those at work finish
// within StopTimeout. Then it cancels them, and answers them all the same.
package worker
