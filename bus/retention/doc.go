// Package retention deletes sessions: on request ([Deleter]) and by rules of age and size ([Keeper]).
//
// # Every step can be repeated
//
// A deletion is a record in the bucket agent_deletions, with the id of the deletion, and a fence in the session's log.
// The fence is stored on the condition that the log still ends where the deleter has read it. From then on no writer
// extends the log, and the session does not open. The record has a bound for every stream: a sequence that the stream
// has reached. Messages of the session up to the bound are deleted; messages above belong to a new session with the
// same id. All streams are purged up to their bounds, the log with the fence last. Then the record is removed.
//
// The bounds are those of the moment after the deleter has read the log and before it looks for commands that wait, so
// a command that comes later is not lost. By force the commands that wait are deleted too, up to the deleter's abort,
// and a run may go on until the fence: what its runner and workers store has bounds of a moment after the fence.
//
// A deletion that was interrupted can therefore be completed by any process: by the next call of [Deleter.Delete], or
// by a runner that finds the fence when it opens the session ([Deleter.Resume]). Two deleters at once do no harm:
// neither can delete messages above the bounds.
//
// # Clocks
//
// A keeper deletes by age. It believes a jump of the clock only after a day of work (decision 160).
//
// # Restores
//
// A restore has a record of the same kind, without a fence ([Deleter.BeginRestore]): the messages that it stores name
// it, and the session does not open while the record is there. Package archive stores the messages. Only another
// restore of the same archive completes one that was interrupted; a deletion by force gives it up.
package retention
