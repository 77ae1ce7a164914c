// Package reader implements the rules by which a runner reads its share of the inbox: which partitions it reads, which
// message of a session is delivered next, what is in flight, and what is acknowledged when. It does not use NATS.
// Package inbox supplies the servers, and the simulation (integration/simulation) supplies a world in which every call
// may fail.
//
// # State
//
// A [Reader] has at most one consumer, for all of its partitions. It deletes that consumer and creates the next one
// when its share changes, and when its ownership of the partitions is unverified: after a lost connection, a missing
// delivery or a deleted consumer. The new consumer redelivers every message that is not settled, in the order of the
// stream. A redelivered message that is in flight already is recognised by its stream sequence: it is not started a
// second time, only its acknowledgement goes to the new consumer.
//
// # Guarantees
//
// The messages of a session start one at a time and in order. The next one starts when the handler reports that the
// one before is in the session's log. Only an abort overtakes, after half a second, those that yield to it. A message
// stays in flight until its delivery returns without an error, and is acknowledged then, unless its work may depend on
// a message that another runner settles.
//
// # Failures
//
// A delivery that fails is retried with growing pauses, and given up after [Options.MaxDeliver] attempts. A session
// that another runner may have extended is released: the Reader cancels its deliveries, waits until they have returned,
// and then starts again, in order, what the consumer in use has delivered of it.
package reader
