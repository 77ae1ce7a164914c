// Package system assembles the parts of loopbus in one process, for tests of the whole: a runner and a toolworker on a
// NATS server or a cluster, each on TCP connections of its own. Everything that it starts ends with the test, in
// reverse order.
package system
