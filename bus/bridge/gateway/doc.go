// Package gateway serves WebSockets in the two dialects of chat programs' gateways.
//
// With a query session=… it is a projection: frames {type, event, payload, seq, stateVersion} with the eleven events of
// package lifecycle. seq counts the frames of the connection, stateVersion is the sequence of the session's log; a
// client that comes back with stateVersion=N gets what follows it. Without stateVersion it begins now. Nothing is taken
// from the client.
//
// Without a session it is protocol 4 of OpenClaw's gateway, as far as a chat needs it: connect.challenge, connect,
// hello-ok, tick, shutdown; chat.send, chat.history, chat.abort; agent.wait; sessions.list, sessions.subscribe and
// sessions.messages.subscribe, each with its unsubscribe; models.list; exec.approval.list and resolve; health. A
// session key is a session, an idempotency key is the id of the
// command, and also the runId of the run that it begins. Events of a run count by a seq of their own, and the log's
// sequence is in the data of agent events. What is not there is answered by INVALID_REQUEST.
//
// A client that leaves ends nothing. Bounded are connections, the size of frames, subscriptions, and the time that a
// client may take to read one, to connect, and to answer a ping.
package gateway
