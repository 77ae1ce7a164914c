// Package eventstore keeps the logs of sessions: append, read, snapshot, verify. [Store] keeps them on NATS
// JetStream, [Memory] in memory. Both pass the contract tests of package eventstoretest.
//
// # Guarantees
//
// A session's log has one order and no gap: its events are numbered 1, 2, 3 …. They are stored in commits. A commit is
// one message with one or more events (see [schemas.Commit]): all of them are stored, or none. Every commit carries the
// hash of the commit before it. The server refuses every commit that does not name the newest message on the session's
// subject: optimistic concurrency, with that sequence as the fencing token. Two writers can therefore never both extend
// a session: the second gets an error wrapping [schemas.ErrConflict] and has to stop. A reader gets events and does not
// see how they were packed. Logs of the first version, with one event a message, are still read and continued.
//
// [Log.Append] queues an event and returns; [Log.Send] begins to store what is queued, and
// [Log.Flush] returns once everything appended is stored. A flushed event is in the log. An event that was appended but
// not flushed may be in the log or not, but never without everything before it. Errors are final: after the first, a
// log stores nothing more and every call returns that error. A writer that wants to continue opens the session again
// and reads what is stored.
//
// # Failures
//
// The answer to an append can be lost: by a timeout, a lost connection, or no responders. The log then reads the
// message at the place of the commit and compares hashes. Two writers' events may have equal ids, but their hashes
// differ as long as the writers have different sources. There are three cases. The commit is there: it was stored.
// Another writer's commit is there: the session is lost ([schemas.ErrConflict]). Nothing is there: the commit is
// published again with the same expected sequence. The log repeats this for Options.OutcomeTimeout and then fails with
// an [OutcomeError].
//
// The connection must be made with nats.ReconnectBufSize(-1), which [New] checks. With a reconnect buffer, the client
// library could send an append long after its writer was told that it failed.
//
// # Cost
//
// A log at rest costs its struct: no goroutine, no subscription, no timer. If no commit is in flight, the caller of
// Send or Flush publishes the next one; otherwise the goroutine that receives the acknowledgement does, which saves a
// switch of goroutines. Reading a session costs in proportion to its own events (direct gets along its own subject).
package eventstore
