// Package bridge is what bridges have in common: handlers that speak another protocol to clients that know no NATS, and
// are clients of the bus themselves. Each is a package below this one.
//
// Two rules make a bridge. The client's id is the command's id ([CommandID]), so that a request that is sent again
// changes nothing. And a client that leaves ends nothing: what it has begun goes on, and a client that comes back sees
// it.
//
// A bridge of a few hundred lines is made of
//   - [SessionID], the session of a thread, conversation or key of the other protocol;
//   - [Follower], the session's log folded to its state, and what follows, event by event and delta by delta;
//   - [client.Tracker], which finds the run of a command among them, and [Waiting], the calls that wait for approval;
//   - [EventStream], server-sent events that end for a client that does not read, and [Refuse], errors as answers.
//
// A bridge acts with the credentials of its client.Client, not with those of whoever asks: mount it behind a check that
// admits only clients that may have them (package web).
package bridge
