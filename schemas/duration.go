package schemas

import (
	"math"
	"time"
)

// Milliseconds returns n milliseconds as a duration. Members such as timeoutMs may have any 64 bit integer: a value
// that a duration cannot hold, beyond 292 years, becomes the longest or shortest duration instead of wrapping around.
func Milliseconds(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	switch {
	case n > most:
		return math.MaxInt64
	case n < -most:
		return math.MinInt64
	}
	return time.Duration(n) * time.Millisecond
}
