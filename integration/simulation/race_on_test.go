//go:build race

package simulation_test

// The race detector makes the simulation about ten times slower.
const (
	raceEnabled  = true
	defaultSeeds = 30
	replays      = 5
)
