//go:build race

package simulation_test

// The race detector makes everything some ten times as slow.
const (
	raceEnabled  = true
	defaultSeeds = 30
	replays      = 5
)
