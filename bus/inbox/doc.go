// Package inbox reads a runner's share of the sessions' commands and hands them, session by session and in the order of
// the stream, to a [Handler].
//
// # Who reads what
//
// AGENT_CMD is a work queue whose messages are divided into partitions by session. The live runners (package
// membership) share the partitions by rendezvous hashing. A runner reads its share with one consumer, which is made for
// it and deleted when the share changes. A work queue has no two consumers for one subject, so the consumer of a runner
// that is lost is deleted by whoever takes over; with it go its requests, and its acknowledgements have no effect any
// more.
//
// Taking over resets: the new consumer delivers everything that is not settled, at once and in the order of the stream.
// Nothing is to be guessed about what a lost runner had received, and nothing has to be waited for. The same answer
// serves whenever ownership is unverified: after a lost connection, a missing delivery or a consumer that is gone, the
// runner deletes its consumer and makes the next. What is in flight here already is recognised when it comes again.
//
// # What is acknowledged when
//
// A message stays in flight, unacknowledged, until its Handler returns: the rule of rest. There are no heartbeats for
// messages in flight; AckWait is so long that it never ends. A delivery that fails is tried again here, after a growing
// pause. The server's count of deliveries is lost with the consumer, so what may have killed a runner is counted in the
// stream AGENT_ATTEMPT, and given up when it has been begun too often.
//
// Reading a partition is not ownership of its sessions: two runners may read one for a moment, and the fence of the log
// decides.
package inbox
