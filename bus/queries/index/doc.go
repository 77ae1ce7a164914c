// Package index maintains a list of all sessions: what each is doing, what it is about, and what it has used. Every
// runner holds the whole list in memory, so it answers queries without reading logs.
//
// An entry ([Entry]) is a fold over the events of its session's log. It is stored in the bucket agent_sessions, which
// all runners follow. The runner that drives a session folds its events as they are appended ([Track]) and writes the
// entry once they are stored: concurrently with the next append, not before it, and at most about once per second.
//
// The log is authoritative. An entry names the message of the log up to which it is folded. So an entry that was not
// written, because its runner died or the server did not answer, is detected: runners read the headers of messages
// stored since the checkpoint, fold what the entries lack, and advance the checkpoint. A lost bucket, or one of
// another [Version], is the case of a checkpoint at the beginning.
//
// Writers of an entry are fenced by the bucket's revision, and an entry is never replaced by the fold of fewer
// events.
package index
