// Package load puts many tool calls of many sessions on several worker processes and looks at how they are shared:
// every call is executed once, all workers have their part, and no session waits for another one's batch.
//
//	go test ./integration/load -run TestLoad -load.calls 10000 -load.sessions 100 -v
package load
