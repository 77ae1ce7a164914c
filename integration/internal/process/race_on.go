//go:build race

package process

// raceEnabled reports whether the test was built with the race detector: then the commands are, too.
const raceEnabled = true
