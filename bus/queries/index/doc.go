// Package index keeps a list of all sessions: what each is doing, what it is about, what it has used. Every runner has
// the whole of it in memory, so that a list is answered without reading a log.
//
// An entry ([Entry]) is a fold over the events of its session's log, and is kept in the bucket agent_sessions, which
// all runners follow. The runner that drives a session folds its events as they are appended ([Track]) and writes the
// entry once they are stored: concurrently with the next append, not before it, and at most about once a second.
//
// The log is the truth. An entry names the message of the log that it is the fold of, so that an entry that was not
// written, because its runner died or the server did not answer, is found: runners go through the headers of what was
// stored since the checkpoint, fold what their entries lack, and move the checkpoint. A bucket that is lost, or one of
// another [Version], is the case of a checkpoint at the beginning.
//
// Writers of an entry are fenced by the bucket's revision, and an entry is never replaced by the fold of less.
package index
