// Package inbox reads a runner's share of the sessions' commands and delivers them, in the order of the stream for each
// session, to a [Handler].
//
// # Partitions
//
// AGENT_CMD is a work queue whose messages are partitioned by session. The live runners (package membership) share the
// partitions by rendezvous hashing. A runner reads its share with one consumer. It creates that consumer for the share
// and deletes it when the share changes. A work queue allows only one consumer for a subject, so a runner that takes
// over deletes the consumer of the lost runner, and with it the lost runner's pull requests. From then on the lost
// runner's acknowledgements have no effect.
//
// # Takeover by reset
//
// A new consumer redelivers everything that is not settled, at once and in the order of the stream. So nobody needs to
// know what a lost runner had received, and nothing waits for a timeout. A runner resets itself in the same way
// whenever its ownership is unverified: after a lost connection, a missing delivery or a deleted consumer. It
// recognises redelivered messages that are in flight already. Package reader has the rules.
//
// # Acknowledgement
//
// A message stays in flight until its Handler returns (the rule of rest). It needs no heartbeats: AckWait never
// expires. A delivery that fails is retried here after a growing pause. The server's delivery counts are deleted with
// the consumer, so the stream AGENT_ATTEMPT counts how often a message may have killed its runner. After
// [Options.MaxDeliver] attempts or lost runners the command is rejected and kept in AGENT_DEAD.
//
// # Fencing
//
// Reading a partition is not ownership of its sessions. Two runners may read a partition for a moment; the log then
// refuses the appends of one of them.
package inbox
