//go:build !race

package simulation_test

// How many seeds are run, and how many are run twice, where nobody says.
const (
	raceEnabled  = false
	defaultSeeds = 100
	replays      = 20
)
