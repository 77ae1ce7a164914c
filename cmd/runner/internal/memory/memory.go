// Package memory has Go collect garbage by a size that a runner aims at.
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
	// aim is how much memory the runner and its server hold before garbage is collected sooner than Go does it.
	aim = 144 << 20
	// look is how often it is looked how much they need.
	look = time.Second
)

// limit is Go's limit of memory for a process that needs this much: at least the aim, and always some room for garbage,
// without which a process that needs more than the aim would collect all the time.
func limit(live, stacks uint64) int64 { return int64(max(aim, (live+stacks)/3*4)) }

// Bound sets the process's limit of memory, 144 MiB or more where more is needed, until ctx ends. It leaves the limit
// to GOGC and GOMEMLIMIT where the environment has one of them. The error is nil.
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
