// Package retention deletes sessions: when somebody asks for it ([Deleter]) and when they are old or large ([Keeper]).
//
// # One step that can be repeated
//
// A deletion is a record in the bucket agent_deletions and a fence in the session's log. The record says which deletion
// it is. The fence is stored on the condition that the log still ends where the deleter has read it; from then on
// no writer extends the log, and the session does not open. Then the record gets, for every stream, the sequence that
// the stream has reached: what lies below it is the session's that is deleted, what lies above belongs to the one that
// begins anew. Everything is purged up to these sequences, the log and the fence last, and the record goes.
//
// So each step may be done again, by whoever comes: by the next call of [Deleter.Delete], or by a runner that finds the
// fence when it opens the session ([Deleter.Resume]). Two of them at once do no harm: neither can touch what came after
// the deletion.
package retention
