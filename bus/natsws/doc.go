// Package natsws lets browsers speak NATS: a [Bridge] takes WebSockets and carries the bytes of the NATS protocol to a
// server and back. It is for servers that have no WebSocket listener of their own, which is any server that a runner's
// --nats names, and the one inside a runner. TLS to the server is the bridge's business: it makes the handshake and
// hides it from the client, whose own connection is as safe as the HTTP it comes by.
//
// Each WebSocket is a connection of its own to the server, and authenticates by the client's own CONNECT: the bridge
// has no credentials that it could lend, but for a client certificate where the server demands one
// ([Upstream.CertFile]). So a client of a bridge may do what the server permits, and nothing else.
//
// Of what the server says, INFO is changed: what is about TLS is taken out, and so are addresses of other servers,
// which a browser could not use. Everything else passes as it is.
//
// Bounded are the number of connections, the size of a frame, the time of every write and of the first frame. A client
// that does not read makes the server wait, which then ends the connection as that of a slow consumer; a client that
// answers no ping is disconnected.
package natsws
