// Package bus is loopbus's way to NATS: the embedded server, connections, streams and buckets, the inbox of the
// sessions, tool dispatch, updates, the CloudEvents codec, and a Watermill Publisher and Subscriber.
//
// A [Server] is needed only where no NATS server runs yet; everything else works on a [Conn] and does not care whose
// server it talks to. [Setup] makes what docs/architecture.md names; any number of processes may call it at any time.
//
// Delivery is at least once everywhere: whoever takes a message from here has to know what it has done already. What
// cannot be processed ends in AGENT_DEAD with the reason, never in silence and never in a loop.
//
// What starts goroutines has a Close, Shutdown or Run that waits for them.
package bus
