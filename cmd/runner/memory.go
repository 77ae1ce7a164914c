package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/loopbus/loopbus/bus/natsio"
)

const (
	// memoryAim is how much memory the runner and its server hold before garbage is collected sooner than Go does it.
	memoryAim = 144 << 20
	// memoryLook is how often it is looked how much they need.
	memoryLook = time.Second
)

// memoryLimit is Go's limit of memory for a process that needs this much: at least the aim, and always some room for
// garbage, without which a process that needs more than the aim would collect all the time.
func memoryLimit(live, stacks uint64) int64 { return int64(max(memoryAim, (live+stacks)/3*4)) }

// boundMemory sets the limit until ctx ends, unless GOGC or GOMEMLIMIT say what is wanted.
func boundMemory(ctx context.Context) error {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	needs := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	for before := int64(0); ; {
		metrics.Read(needs)
		if limit := memoryLimit(needs[0].Value.Uint64(), needs[1].Value.Uint64()); limit != before {
			debug.SetMemoryLimit(limit)
			before = limit
		}
		if !natsio.Wait(ctx, memoryLook) {
			return nil
		}
	}
}
