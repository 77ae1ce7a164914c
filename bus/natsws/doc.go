// Package natsws lets browsers speak NATS: a [Bridge] accepts WebSockets and carries the bytes of the NATS protocol
// to a server and back. It is for servers without a WebSocket listener, such as any server named by a runner's
// --nats, or a runner's embedded server. The bridge makes the TLS handshake with the server and hides it from the
// client, whose own connection is as secure as the HTTP connection it uses.
//
// Each WebSocket has its own connection to the server, and authenticates with the client's own CONNECT. The bridge
// has no credentials that it could lend, except a client certificate if the server requires one
// ([Upstream.CertFile]). So a client may do exactly what the server permits.
//
// The bridge changes only INFO: it removes what concerns TLS, and the addresses of other servers, which a browser
// cannot use. Everything else passes unchanged.
//
// Limits apply to the number of connections, the size of a frame, and the time for every write and for the first
// frame. A client that the server has not admitted makes room for others. Of the places for those that it has admitted
// a caller leaves as many as it takes: a user, or an address if the server has checked no user. A client that does not
// read makes the server wait, which then disconnects it as a slow consumer; a client that does not answer a ping is
// disconnected.
package natsws
