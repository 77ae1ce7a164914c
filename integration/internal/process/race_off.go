//go:build !race

package process

// raceEnabled has the commands built like the test.
const raceEnabled = false
