//go:build !unix

package system

import "time"

// Spent returns 0: there is no portable way to measure it.
func Spent() time.Duration { return 0 }
