//go:build !race

package bus_test

import "time"

const raceAllowance = time.Duration(0)
