// Package client is the Go client of loopbus: it prompts, steers and aborts sessions, follows what they do, and lists
// tools and approvals. It needs NATS and package schemas alone; a program with it links no server.
//
// A [Client] is one connection. A [Session] of it is a handle that costs nothing. [Session.Prompt] sends a prompt and
// returns the [Run] that it begins, joins or waits for; [Run.Items] follows the run and [Run.Wait] returns what it came
// to. [Session.Watch] follows all that happens in a session.
//
// Events are yielded in the order of their sequences, each once, without a gap, across lost connections and restarts of
// the server: they come live as the server republishes them, and from the log where one is missing. Updates are yielded
// after the event that they belong to and before the event that ends it, in their order and each once. What is yielded
// of a reply's deltas is always a beginning of the reply: where an update is lost for good, the rest of that reply
// comes with its message_end, which has the whole message in any case. A follower that begins in the middle of a reply
// is given all of its updates so far, as far back as the server keeps updates (two minutes).
//
// Memory is bounded whatever comes in: a reader that is slow loses its place in the live feed and is brought back from
// the log. Following runs in the goroutine of the loop that ranges over it; whatever it has opened is closed when the
// loop ends.
//
// A command is sent as a CloudEvent with an id, which makes it idempotent: sent again with the same id, by this process
// or another one, it changes nothing, and everybody who asks for its [Run] gets the same one. Without [WithID] each
// call is another command.
//
// Every method that talks to the server ends when its context does, or after [Options].RequestTimeout. A lost
// connection is waited for within this time; a permission that is missing is an error that says so.
package client
