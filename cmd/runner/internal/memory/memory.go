// Package memory tunes Go's garbage collector to a memory size that a runner aims at.
package memory

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/loopbus/loopbus/bus/natsio"
)

const (
	// aim is the memory of the runner and its server above which garbage is collected more often than by default.
	aim = 144 << 20
	// look is the interval at which the memory limit is adjusted.
	look = time.Second
)

// limit returns Go's memory limit for a process that needs live plus stacks bytes: at least aim, and always some room
// for garbage. Without that room a process that needs more than aim would collect continuously.
func limit(live, stacks uint64) int64 { return int64(max(aim, (live+stacks)/3*4)) }

// Bound adjusts the memory limit of the process until ctx ends: 144 MiB, or more if more is needed. If GOGC or
// GOMEMLIMIT is set, it does nothing. The error is always nil.
func Bound(ctx context.Context) error {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	needs := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	for before := int64(0); ; {
		metrics.Read(needs)
		if now := limit(needs[0].Value.Uint64(), needs[1].Value.Uint64()); now != before {
			debug.SetMemoryLimit(now)
			before = now
		}
		if !natsio.Wait(ctx, look) {
			return nil
		}
	}
}
