// Package system assembles loopbus in one process for integration tests: a runner and a toolworker on a NATS server or
// a cluster, each with its own TCP connections. When the test ends, it stops everything in reverse order.
package system
