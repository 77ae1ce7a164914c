// Package pubsub implements Watermill's Publisher and Subscriber on JetStream, and stores messages that cannot be
// processed as dead letters.
//
// The Subscriber reads durable pull consumers. A message is pulled when there is a free slot for it, never before
// (backpressure), and is redelivered unless it is acknowledged. While its handler runs, heartbeats extend its ack wait.
// A subscription that ends still delivers the messages of its pending pull requests. It cannot nak them: a nak would
// count as a delivery, and an unsafe tool call is executed at its first delivery only.
//
// It links no NATS server.
package pubsub
