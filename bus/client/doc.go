// Package client is the Go client of loopbus. It sends prompts, steers and aborts to sessions, follows their events
// and deltas, answers approvals, and lists sessions, tools and models. It depends on nats.go, package schemas and
// small leaf packages; a program that imports it links no server.
//
// A [Client] wraps one NATS connection. A [Session] is a handle that costs nothing to make. [Session.Prompt] sends a
// prompt and returns a [Run]: [Run.Items] yields the run's events and deltas, [Run.Wait] returns its [Result].
// [Session.Watch] follows everything that happens in a session.
//
// # What following guarantees
//
// Events are yielded in the order of their sequences, each exactly once and without a gap, across lost connections
// and server restarts. They arrive live, as the server republishes them; the client reads the log when one is
// missing.
//
// If the session is deleted meanwhile, the loop ends with an error that wraps [ErrDeleted] or, if the session has begun
// again, [ErrDamaged]: what follows is another log.
//
// Updates (deltas) are yielded in order, each at most once, after the event they belong to and before the event that
// ends it. The deltas yielded of a reply always form a prefix of that reply: if an update is lost for good, no later
// ones follow, and the complete message arrives with its message_end. A follower that starts in the middle of a reply
// receives all of the reply's updates so far, as far back as the server keeps them (two minutes).
//
// Memory is bounded: all loops of a client have 64 MiB together that their callers have not taken. If the caller is
// slower than the live feed, the client drops live messages and reads them from the log again. Payloads in the object
// store are loaded in turn, and before that a loop may ask its caller for room ([Session.WithRoom]). Following runs in
// the goroutine that ranges over the iterator, and releases its subscriptions and consumers when the loop ends.
//
// # Commands and retries
//
// Every command is a CloudEvent whose id makes it idempotent: sending it again with the same id, from this process or
// from another one, changes nothing, and every sender gets the same [Run]. Without [WithID] each call sends a new
// command.
//
// Every method that makes a request returns when its context ends, or after [Options].RequestTimeout. Within that
// time it retries while the connection is lost or the server has no leader. A missing permission is reported as an
// error that names the subject. A command may be stored although sending it returned an error: then the error wraps
// [ErrUnacknowledged].
package client
