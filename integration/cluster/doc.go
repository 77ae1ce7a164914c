// Package cluster tests sessions while servers of their cluster are killed, restarted and cut off.
package cluster
