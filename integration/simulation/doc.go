// Package simulation runs hosts, as runners do, on a simulated log, inbox, tools and model. Time is a fake clock, and
// all random values come from a seed. So thousands of worlds, each with runners that crash, are suspended or stop, run
// in seconds, and each can be repeated.
//
// The log is eventstore.Memory behind a network that is slow and loses messages. The inbox is package reader, as
// package inbox uses it, with package membership: inbox_test.go and membership_test.go simulate their network, and
// queue_test.go the server. The simulation leaves out decoding and the counting of attempts. A message that a process
// has sent arrives even if the process dies; a message that it has not sent never arrives. A suspended process stops
// at the next message that it sends or receives.
//
// While it runs, the test checks that no command is acknowledged before its effect is stored, or while no other message
// would wake its session; that no delta is published before its message_start is stored; that a runner that is not
// suspended stops work on a session that it has lost within leaveWithin; and that a runner that lost a session while it
// was suspended calls no model and no tool for it. When everything is at rest, it checks that package history finds no
// violation in outcomes, order, runs, calls and executions, and that every log verifies.
//
//	go test ./integration/simulation                      some seconds of random seeds
//	go test ./integration/simulation -sim.seeds 100000    more seeds
//	go test ./integration/simulation -sim.seed 4711 -v    one seed again, with each step logged
package simulation
