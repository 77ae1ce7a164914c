// Package eventstore keeps the logs of sessions: append, read, snapshot, verify. [Store] keeps them on NATS
// JetStream, [Memory] in memory; package eventstoretest holds both to one contract.
//
// # Guarantees
//
// A session's log has one order and no gap: its events are numbered 1, 2, 3 …. They are stored in commits, that is
// messages of one or more events each (see [schemas.Commit]): of a commit, all is stored or nothing. Each carries the
// hash of the message before, and the server refuses every commit that does not name the last message its writer has
// seen: optimistic concurrency, with the sequence as fencing token. Two writers can therefore never both extend a
// session: the second gets an error wrapping [schemas.ErrConflict] and has to stop. A reader sees events, however they
// were packed; logs of an earlier version, with one event a message, are read and continued.
//
// [Log.Append] queues an event and returns; [Log.Send] begins to store what is queued, and
// [Log.Flush] returns once everything appended is stored. What was flushed is in the log. What was appended but not
// flushed may be in the log or not, but never without everything before it. Errors are final: after the first, a log
// stores nothing more and every call returns that error. A writer that wants to continue opens the session again and
// reads what is there.
//
// # Failures
//
// An append whose answer is lost (timeout, lost connection, no responders) is not guessed at: the log reads back what
// is stored at the place of the commit and compares hashes, since two writers' events have equal ids but never equal
// hashes, as long as their sources differ. It was stored, or another writer's is there ([schemas.ErrConflict]), or the
// place is empty and the commit is published again with the same expectation. This goes on for Options.OutcomeTimeout;
// then the error is an [OutcomeError].
//
// The connection must be made with nats.ReconnectBufSize(-1), which [New] checks: an append that waits in a buffer for
// the server to come back can be stored long after its writer got the answer that it was not.
//
// # Cost
//
// A log at rest costs its struct: no goroutine, no subscription, no timer. A commit is published by the caller of Send
// or Flush when none is in flight, and by the goroutine that takes the answers otherwise, so that it costs no switch.
// Reading a session costs in proportion to its own events (direct gets along its own subject).
package eventstore
