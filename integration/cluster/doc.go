// Package cluster holds tests of what happens to sessions when servers of a cluster are killed, restarted and cut off.
package cluster
