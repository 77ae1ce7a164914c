// Package membership tracks which runners are live and which partitions each of them reads.
//
// # Heartbeats
//
// Every runner publishes a heartbeat four times in DeadAfter, over core NATS, and receives those of the others. A
// runner without a heartbeat for DeadAfter is considered dead, which also finds runners that are suspended or
// partitioned. A runner whose process has ended is found sooner: each runner probes its successor in the list, and a
// request without responders means that the server has seen that runner's connection close.
//
// A runner can be live and not able to read the inbox. Its heartbeats say so ([Membership.SetUnable]), and the others
// leave it out when they compute who reads which partition ([View].Readers).
//
// # Failures
//
// A false alarm is harmless. Membership decides who reads which partition, and reading is not ownership: the log
// refuses the append of a runner that has lost a session (docs/architecture.md, "How appends are fenced").
//
// # The list
//
// The bucket agent_runners lists the runners for operators, and for a runner that starts: it waits for the heartbeats
// of the listed runners before it reads anything. Nothing else depends on the bucket.
package membership
