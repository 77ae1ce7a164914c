package models_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/schemas"
)

// BenchmarkModelStream measures a reply of 10 000 deltas that a served model streams as fast as it can. The client, the
// server and the NATS server are in one process.
func BenchmarkModelStream(b *testing.B) {
	const deltas = 10_000
	server := bustest.Server(b)
	model := modelFunc(func(_ context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		say(start())
		for range deltas {
			say(piece("word "))
		}
		say(done("all of it"))
		return nil
	})
	serveModels(b, bustest.Connect(b, server), model, models.ServerOptions{})
	client := models.NewClient(bustest.Connect(b, server), models.ClientOptions{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		n := 0
		for e := range client.Stream(b.Context(), wholeRequest("hi")) {
			if e.Type == schemas.StreamTextDelta {
				n++
			}
			if e.Type == schemas.StreamError {
				b.Fatal(e.Message.ErrorMessage)
			}
		}
		if n != deltas {
			b.Fatalf("%d deltas, want %d", n, deltas)
		}
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(b.N)*deltas/b.Elapsed().Seconds(), "deltas/s")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/(float64(b.N)*deltas), "allocs/delta")
}
