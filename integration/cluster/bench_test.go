//go:build unix

package cluster_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/integration/internal/cluster"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// BenchmarkReplicas measures the cost of replicas and of the sync policy on the same three servers: for one synchronous
// append, and for tool turns of one session and of 32 concurrent sessions.
func BenchmarkReplicas(b *testing.B) {
	for _, syncAlways := range []bool{false, true} {
		for _, replicas := range []int{1, 3} {
			b.Run(fmt.Sprintf("sync_always=%v/replicas=%d", syncAlways, replicas), func(b *testing.B) {
				benchmarkReplicas(b, syncAlways, replicas)
			})
		}
	}
}

const benchTurns = 20 // per run

func benchmarkReplicas(b *testing.B, syncAlways bool, replicas int) {
	c := cluster.Start(b, cluster.Options{SyncAlways: syncAlways})
	var responses []scripted.Response
	for range benchTurns {
		responses = append(responses, scripted.Calls("",
			schemas.ToolCall{Name: "echo", Arguments: json.RawMessage(`{"v":"x"}`)}))
	}
	model := scripted.New(append(responses, scripted.Text("done"))...)
	s := system.Start(b, c.URL(), system.Options{Model: model, Streams: streams.Options{Replicas: replicas}})
	s.Run(b, "warm")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(appends(b, s.Store).Seconds()*1e6, "µs/append")
	b.ReportMetric(turns(b, s, "one", 1).Seconds()*1e6, "µs/turn")
	b.ReportMetric(32/turns(b, s, "many", 32).Seconds(), "turns/s@32")
}

// appends returns the median time of an append with its flush.
func appends(b *testing.B, store *eventstore.Store) time.Duration {
	log, err := store.Open(b.Context(), "s1")
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	var all []time.Duration
	for seq := range uint64(max(b.N, 1000)) {
		start := time.Now()
		write(b, log, seq+1, seq+1)
		all = append(all, time.Since(start))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// turns returns the time of a turn with a number of concurrent sessions.
func turns(b *testing.B, s *system.System, name string, sessions int) time.Duration {
	const runs = 4
	var all sync.WaitGroup
	start := time.Now()
	for i := range sessions {
		all.Go(func() {
			for r := range runs {
				s.Run(b, fmt.Sprintf("%s-%d-%d", name, i, r))
			}
		})
	}
	all.Wait()
	return time.Since(start) / (runs * benchTurns)
}
