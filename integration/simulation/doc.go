// Package simulation drives hosts, as runners have them, on a log, an inbox, tools and a model that are simulated: what
// takes time there takes it by a fake clock, and everything random comes from a seed. So thousands of worlds, each with
// runners that crash, are suspended or stop, pass in seconds, and each can be had again.
//
// The log is eventstore.Memory behind a network that is slow and loses things. The inbox is package reader, as package
// inbox uses it, with package membership: inbox_test.go and membership_test.go give them their network, and
// queue_test.go is the server. Not simulated are decoding and the counting of attempts. What a process has sent
// arrives although the process dies; what it has not sent never does; a process that is suspended stands still at the
// next thing it sends or receives.
//
// The test checks, while it runs: no command is acknowledged before what it did is stored, nor while its session
// would have nobody left to wake it; no delta comes before what it belongs to; a runner that is awake leaves a session
// that it has lost, within ten seconds; one that lost a session while it was suspended calls no model and no tool for
// it. And when everything has come to rest, what package history says of outcomes, order, runs, calls and executions,
// and that every log verifies.
//
//	go test ./integration/simulation                      some seconds of random seeds
//	go test ./integration/simulation -sim.seeds 100000    more of them
//	go test ./integration/simulation -sim.seed 4711 -v    one of them again, each step logged
package simulation
