package integration_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

const turnsPerRun = 20

// toolTurns is a model that calls echo in every turn of a run except the last.
func toolTurns(tb testing.TB, turns int) driver.Model {
	var responses []scripted.Response
	for range turns {
		responses = append(responses, scripted.Calls("",
			schemas.ToolCall{Name: "echo", Arguments: json.RawMessage(`{"v":"x"}`)}))
	}
	model, err := scripted.NewScripts(scripted.Options{},
		scripted.Script{Responses: append(responses, scripted.Text("done"))})
	if err != nil {
		tb.Fatal(err)
	}
	return model
}

// BenchmarkToolTurn measures tool turns: the floor, which is the least JetStream work they need, and loopbus, in turn
// on the same server. Figures and what they mean: docs/performance.md.
func BenchmarkToolTurn(b *testing.B) {
	for _, sync := range []bool{false, true} {
		for _, sessions := range []int{1, 64} {
			b.Run(fmt.Sprintf("sync_always=%v/sessions=%d", sync, sessions), func(b *testing.B) {
				benchmarkToolTurn(b, sync, sessions)
			})
		}
	}
}

// rounds is how often floor and loopbus alternate, so that a drift of the machine affects both.
const rounds = 4

func benchmarkToolTurn(b *testing.B, syncAlways bool, sessions int) {
	server := system.StartServer(b, syncAlways)
	s := system.Start(b, server.ClientURL(), system.Options{Model: toolTurns(b, turnsPerRun)})
	f := startFloor(b, server)
	s.Run(b, "warm")
	f.run(b, "warm", turnsPerRun)
	runs := max(1, b.N/(turnsPerRun*sessions*rounds))
	before := logBytes(b, s)
	var ours, floor took
	b.ResetTimer()
	for round := range rounds {
		ours.add(sessions, func(i int) {
			for r := range runs {
				s.Run(b, fmt.Sprintf("s%d-%d-%d", round, i, r))
			}
		})
		floor.add(sessions, func(i int) {
			f.run(b, fmt.Sprintf("f%d-%d", round, i), runs*turnsPerRun)
		})
	}
	b.StopTimer()
	turns := float64(rounds * sessions * runs * turnsPerRun)
	report(b, turns, ours, floor, sessions)
	b.ReportMetric(float64(logBytes(b, s)-before)/turns, "bytes/turn")
}

func report(b *testing.B, turns float64, ours, floor took, sessions int) {
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(ours.processor.Microseconds())/turns, "cpu-µs/turn")
	b.ReportMetric(float64(floor.processor.Microseconds())/turns, "floor-cpu-µs/turn")
	if sessions == 1 {
		b.ReportMetric(float64(ours.wall.Microseconds())/turns, "µs/turn")
		b.ReportMetric(float64(floor.wall.Microseconds())/turns, "floor-µs/turn")
		b.ReportMetric(float64(ours.wall)/float64(floor.wall), "×floor-time")
		return
	}
	b.ReportMetric(turns/ours.wall.Seconds(), "turns/s")
	b.ReportMetric(turns/floor.wall.Seconds(), "floor-turns/s")
	b.ReportMetric(float64(floor.wall)/float64(ours.wall), "×floor-throughput")
}

// took is elapsed time and processor time.
type took struct{ wall, processor time.Duration }

// add runs f once per session, all concurrently, and adds the time until all have ended.
func (t *took) add(sessions int, f func(i int)) {
	var wg sync.WaitGroup
	start, spent := time.Now(), system.Spent()
	for i := range sessions {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
	t.wall += time.Since(start)
	t.processor += system.Spent() - spent
}

func logBytes(tb testing.TB, s *system.System) uint64 {
	stream, err := s.Conn.JetStream().Stream(tb.Context(), schemas.StreamEvents)
	if err != nil {
		tb.Fatal(err)
	}
	return stream.CachedInfo().State.Bytes
}
