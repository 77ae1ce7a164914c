// Package memory tunes Go's garbage collector to a memory size that a program aims at.
package memory

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/loopbus/loopbus/bus/natsio"
)

// look is the interval at which the memory limit is adjusted.
const look = time.Second

// limit returns Go's memory limit for a process that needs live plus stacks bytes: at least aim, and always some room
// for garbage. Without that room a process that needs more than aim would collect continuously.
func limit(aim int64, live, stacks uint64) int64 { return max(aim, int64((live+stacks)/3*4)) }

// Bound adjusts the memory limit of the process until ctx ends: so many bytes as aim, above which garbage is collected
// more often than by default, or more if more is needed. If GOGC or GOMEMLIMIT is set, it does nothing. The error is
// always nil.
func Bound(ctx context.Context, aim int64) error {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	needs := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	for before := int64(0); ; {
		metrics.Read(needs)
		if now := limit(aim, needs[0].Value.Uint64(), needs[1].Value.Uint64()); now != before {
			debug.SetMemoryLimit(now)
			before = now
		}
		if !natsio.Wait(ctx, look) {
			return nil
		}
	}
}
