// Package bridge contains what the bridges have in common. A bridge is an HTTP handler that speaks another protocol
// to clients without NATS, and is itself a client of the bus. Each bridge is a package below this one.
//
// Two rules define a bridge. The client's id of what it sends makes the command's id ([CommandID]), so a request that
// is sent again changes nothing. And a client that disconnects stops nothing: the run continues, and a client that
// reconnects sees it.
//
// A bridge of a few hundred lines consists of
//   - [SessionID], the session for a thread, conversation or key of the other protocol;
//   - [Follower], the session's log folded to its state, followed event by event and delta by delta;
//   - [client.Tracker], which finds the run of a command among the items;
//   - [Waiting], the calls that wait for approval;
//   - [Budget], which bounds what the requests of all clients take in memory, and what is shown to them;
//   - [EventStream], server-sent events that end for a client that does not read, and [Refuse], errors as answers.
//
// A bridge acts with the credentials of its client.Client, not with those of the HTTP client: mount it behind a check
// that admits only clients that may have them (package web).
package bridge
