//go:build !race

package simulation_test

// Default numbers of seeds that are run, and of seeds that are run twice.
const (
	raceEnabled  = false
	defaultSeeds = 50
	replays      = 300 // until one gives the same
)
