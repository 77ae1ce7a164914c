// Package eventstore keeps the logs of sessions: append, read, follow, snapshot, verify. [Store] keeps them on NATS
// JetStream, [Memory] in memory; package eventstoretest holds both to one contract.
//
// # Guarantees
//
// A session's log has one order and no gap: its events are numbered 1, 2, 3 …, each carries the hash of the one before,
// and the server refuses every append that does not name the last message its writer has seen. Two writers can
// therefore never both extend a session: the second gets an error wrapping [schemas.ErrConflict] and has to stop.
//
// [Log.Append] hands an event over and returns; [Log.Flush] returns once everything handed over is stored. What was
// flushed is in the log. What was handed over but not flushed may be in the log or not, but never without everything
// before it. Errors are final: after the first, a log stores nothing more and every call returns that error. Whoever
// wants to go on opens the session again and reads what is there.
//
// # Failures
//
// An append whose answer is lost (timeout, lost connection, no responders) is not guessed at: the log reads back what is
// stored at the place of the event and compares hashes, since two writers' events have equal ids but never equal
// hashes, as long as their sources differ. It was stored, or somebody else's event is there ([schemas.ErrConflict]), or
// the place is empty and the event is published again with the same expectation. This goes on for
// Options.OutcomeTimeout; then the error is an [OutcomeError].
//
// The connection must be made with nats.ReconnectBufSize(-1), which [New] checks: an append that waits in a buffer for
// the server to come back can be stored long after its writer was told that it was not.
//
// # Cost
//
// A log at rest costs its struct: no goroutine, no subscription, no timer. An append is published by the caller itself
// when nothing is under way, and by the goroutine that takes the answers otherwise, so that handing over costs no
// switch. Reading a session costs in proportion to its own events (direct gets along its own subject).
package eventstore
