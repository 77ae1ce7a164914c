// Package worker serves tools as queues on NATS (docs/tool-protocol.md). Most programs need only [Serve].
//
// A [Worker] announces its tools in the bucket agent_tools and pulls the calls that wait at
// agent.tool.<tool>.<session>.<call>, each only when a slot is free (backpressure). It publishes the partial results of
// a call at agent.live.<session>.update, then exactly one result to the session's inbox,
// agent.cmd.<session>.tool_result. It acknowledges the call when the result is stored. It cancels a call when a message
// is published at agent.cancel.<session>.<call>.
//
// # Guarantees
//
// If a call is acknowledged, the session's inbox has its result. A call may be delivered, and answered, more than once:
// all results of a call have the same message id and the same command id, and the session uses the first one
// (deduplication).
//
// A tool that is not safe to repeat is executed only at the first delivery of a call. At a later delivery the worker
// cannot know how far the first execution came, so it answers with an error result that says so.
//
// # Callers that are not sessions
//
// If a request has a replyTo, the worker sends the answer only there, and the answer is not stored. The worker accepts
// only subjects below agent.reply and inboxes of NATS clients as replyTo.
//
// # Failures
//
// The worker answers a malformed request with an error result, so that the run continues. If the session or the call in
// the subject is not legal either, the handler fails and the message is redelivered with a growing delay (back-off); if
// the tenth delivery fails too, the message is moved to AGENT_DEAD. A worker that cannot store a result retries until
// it is stored; it naks the call only if it has to stop before that.
//
// # Graceful shutdown
//
// When its context ends, a worker withdraws its announcements, pulls no more calls, and lets the running calls finish
// within StopTimeout. Then it cancels the calls that still run, and answers them too.
package worker
