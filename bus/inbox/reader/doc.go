// Package reader has the rules by which a runner reads its share of the inbox: which partitions it reads, which message
// is next for which session, what is in flight, and what is acknowledged when. It knows nothing of NATS. Package inbox
// gives it the servers, the simulation (integration/simulation) a world in which everything fails.
//
// A Reader has one consumer for all of its partitions. Any change of the share, and any doubt about what has been
// delivered to whom, deletes it and makes the next, which delivers everything unsettled again, in order. What is in
// flight here already is recognised: only its settlement goes another way.
//
// The messages of a session are begun one at a time and in order; the next one when the one before has entered, which
// means that it is stored. A message stays in flight until its delivery returns, and is acknowledged then. A session
// that another runner may have is left: its deliveries are cut off, and what the consumer in use has delivered of it
// begins anew when they have ended.
package reader
