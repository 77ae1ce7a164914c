// Package pubsub is Watermill's Publisher and Subscriber on JetStream, and the dead letters of what cannot be
// processed.
//
// The Subscriber reads durable pull consumers. A message is pulled when there is a free slot for it, never before
// (backpressure), and is redelivered unless it is acknowledged. While its handler runs, heartbeats extend its ack wait.
// A subscription that ends takes what its pull requests under way still bring: a nak would count as a delivery, and an
// unsafe tool call is executed at its first delivery only.
//
// It links no NATS server.
package pubsub
