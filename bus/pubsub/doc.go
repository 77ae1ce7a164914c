// Package pubsub is Watermill's Publisher and Subscriber on JetStream, and the dead letters of what cannot be
// processed.
//
// The Subscriber reads durable pull consumers. A message is pulled when there is a free slot for it, never before, and
// is delivered again unless it is acknowledged. As long as somebody works on it, heartbeats tell the server so. A
// subscription that ends takes what its pull requests under way still bring: to give such a message back would be a
// delivery that nobody has seen, and one of an unsafe tool call must not be followed by another.
//
// It links no NATS server.
package pubsub
