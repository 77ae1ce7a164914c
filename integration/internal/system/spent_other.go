//go:build !unix

package system

import "time"

// Spent is 0: there is no portable way to ask.
func Spent() time.Duration { return 0 }
