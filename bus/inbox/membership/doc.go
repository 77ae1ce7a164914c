// Package membership tells a runner which runners are live, itself among them, and which partitions each of them reads.
//
// Every runner publishes a heartbeat four times in DeadAfter, over core NATS, and hears those of the others. A runner
// whose heartbeats stop for DeadAfter is taken for dead: that also finds one that is suspended or cut off. A runner
// whose process is gone is found sooner: each runner probes its successor in the list, and a request that has no
// responders says that the server has seen that runner's connection close.
//
// A false alarm is harmless. Membership decides who reads which partition, and reading is not ownership: the log
// refuses the append of whoever has lost a session (docs/architecture.md, "How appends are fenced").
//
// The bucket agent_runners lists the runners for operators, and for a newcomer, who waits for the heartbeats of those
// that are listed before it takes anything over. Nothing else depends on the bucket.
package membership
