//go:build race

package inbox_test

import "time"

// raceAllowance is what a measured time may be longer under the race detector.
const raceAllowance = 2 * time.Second
