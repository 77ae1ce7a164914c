//go:build !unix

package observe

import "math"

// maxFiles returns how many files the process may open: here no limit is known.
func maxFiles() uint64 { return math.MaxInt32 }
