// Package codec decodes commands in every form that clients may send, and converts events and updates to the event type
// of the CloudEvents SDK. It also recognises messages that a NATS server sent instead of a client ([IsAnswer]).
package codec
