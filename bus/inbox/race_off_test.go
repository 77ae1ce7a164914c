//go:build !race

package inbox_test

import "time"

const raceAllowance = time.Duration(0)
