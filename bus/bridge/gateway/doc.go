// Package gateway serves WebSockets in two dialects of chat gateways.
//
// With a query session=… it is a projection: frames {type, event, payload, seq, stateVersion} with the eleven events
// of package lifecycle. seq counts the frames of the connection; stateVersion is the sequence of the session's log up
// to which the client has everything, and one that reconnects with stateVersion=N receives what follows it. Without
// stateVersion the projection starts now. The client cannot send anything.
//
// Without a session it is protocol 4 of OpenClaw's gateway, as far as a chat needs it: connect.challenge, connect,
// hello-ok, tick, shutdown; chat.send, chat.history, chat.abort; agent.wait; sessions.list, sessions.subscribe and
// sessions.messages.subscribe, each with its unsubscribe; models.list; exec.approval.list and resolve; health. A
// session key is a session; an idempotency key is the id of the command, and the runId of the run that it starts.
// Events of a run have their own seq, and the data of agent events contains the log's sequence. Other methods are
// answered with INVALID_REQUEST.
//
// What a connection sends for one session takes effect in the order of its frames. Requests that only read or wait, and
// those for other sessions, do not wait for it. chat.abort also withdraws messages of which no run has begun.
//
// Every message of chat.send ends with an event chat, also one that the session refuses, that a hook handles, that
// joins a run, or that has ended before.
//
// If something that a connection follows cannot be followed any further, the connection ends with the reason, because
// the protocol has no other word for it.
//
// A client that disconnects stops nothing. Limits apply to connections, the size of frames, requests in progress,
// subscriptions, and the time for a client to read a frame, to connect, and to answer a ping.
package gateway
