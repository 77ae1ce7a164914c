// Package load sends many tool calls of many sessions to several worker processes and checks how they are distributed:
// every call is executed once, all workers get calls, and no session waits for another one's batch.
//
//	go test ./integration/load -run TestLoad -load.calls 10000 -load.sessions 100 -v
package load
