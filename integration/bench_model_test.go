package integration_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

// BenchmarkModelOnTheBus measures tool turns, alternately with the model behind the bus, served on separate
// connections, and with the model in the runner.
func BenchmarkModelOnTheBus(b *testing.B) {
	for _, sessions := range []int{1, 64} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) { benchmarkModelOnTheBus(b, sessions) })
	}
}

func benchmarkModelOnTheBus(b *testing.B, sessions int) {
	const turnsPerRun = 10 // each sends the whole transcript
	model := toolTurns(b, turnsPerRun)
	inside := system.StartAlone(b, system.Options{Model: model})
	url := system.StartServer(b, false).ClientURL()
	asking := models.NewClient(system.Connect(b, url, "asking"), models.ClientOptions{})
	behind := system.Start(b, url, system.Options{Model: asking, Host: func(o *host.Options) {
		o.Defaults.Model = schemas.ModelRef{API: models.Provider, Provider: models.Provider, ID: "scripted"}
	}})
	answers := system.Connect(b, url, "models")
	serving := models.NewServer(answers, models.ServerOptions{Model: model})
	system.Serve(b, func(ctx context.Context) error { return serving.Run(ctx) })
	<-serving.Ready()
	inside.Run(b, "warm")
	behind.Run(b, "warm")
	runs := max(1, b.N/(turnsPerRun*sessions*rounds))
	var in, out took
	before := answers.NATS().Stats().OutMsgs
	b.ResetTimer()
	for round := range rounds {
		for s, t := range map[*system.System]*took{inside: &in, behind: &out} {
			t.add(sessions, func(i int) {
				for r := range runs {
					s.Run(b, fmt.Sprintf("s%d-%d-%d", round, i, r))
				}
			})
		}
	}
	b.StopTimer()
	turns := float64(rounds * sessions * runs * turnsPerRun)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(in.wall.Microseconds())/turns, "inside-µs/turn")
	b.ReportMetric(float64(out.wall.Microseconds())/turns, "behind-µs/turn")
	b.ReportMetric(float64(in.processor.Microseconds())/turns, "inside-cpu-µs/turn")
	b.ReportMetric(float64(out.processor.Microseconds())/turns, "behind-cpu-µs/turn")
	b.ReportMetric(float64(out.wall)/float64(in.wall), "×inside")
	b.ReportMetric(float64(answers.NATS().Stats().OutMsgs-before)/turns, "answers/turn")
}
