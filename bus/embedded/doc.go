// Package embedded runs a NATS server with JetStream inside this process, alone or as one of a cluster. It is the only
// package of the library that links nats-server.
package embedded
