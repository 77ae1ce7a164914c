//go:build unix

package console_test

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

var latency = flag.Bool("latency", false, "measure how long a token takes from the model to the screen")

const ticks = 400

// ticking is a model that says what time it is.
type ticking struct{}

func (ticking) Stream(ctx context.Context, _ schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		m := &schemas.AssistantMessage{StopReason: schemas.StopStop}
		text := ""
		ok := yield(schemas.StreamEvent{Type: schemas.StreamStart, Message: m}, nil) &&
			yield(schemas.StreamEvent{Type: schemas.StreamTextStart}, nil)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for range ticks {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			delta := fmt.Sprintf("%d\n", time.Now().UnixMilli())
			text += delta
			ok = ok && yield(schemas.StreamEvent{Type: schemas.StreamTextDelta, Delta: delta}, nil)
		}
		m.Content = schemas.Contents{schemas.Text{Text: text}}
		_ = ok && yield(schemas.StreamEvent{Type: schemas.StreamTextEnd, Content: text}, nil) &&
			yield(schemas.StreamEvent{Type: schemas.StreamDone, Reason: schemas.StopStop, Message: m}, nil)
	}
}

// TestLatency measures how long a token takes from the model to the screen with a hundred viewers.
func TestLatency(t *testing.T) {
	if !*latency {
		t.Skip("it is measured with -latency")
	}
	w := newWorld(t, system.Options{Model: ticking{}, UpdateInterval: 25 * time.Millisecond})
	var bus []float64
	for n := range 99 {
		nc, err := nats.Connect(w.URL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		_, err = nc.Subscribe("agent.live.s1.>", func(m *nats.Msg) {
			if u, err := schemas.DecodeUpdate(m.Header, m.Data); n == 0 && err == nil {
				bus = append(bus, float64(time.Since(u.Time).Microseconds())/1000)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	page := w.open("#/s/s1")
	page.shows(".session", "No messages yet.")
	eval[bool](page, `(() => { window.took = []; let seen = 0; const look = () => {
		const el = [...document.querySelectorAll(".message.assistant .text")].at(-1);
		const text = (el?.lastElementChild ?? el)?.textContent ?? "";
		const last = Number(text.trimEnd().split("\n").at(-1));
		if (last > seen) { seen = last; const channel = new MessageChannel(); // right after the frame was painted
			channel.port1.onmessage = () => window.took.push(Date.now() - last); channel.port2.postMessage(0); }
		requestAnimationFrame(look); }; look(); return true; })()`)
	w.Prompted(t, "s1", "go", 1)
	page.shows(".end", "done")
	took := eval[[]float64](page, "window.took")
	slices.Sort(took)
	slices.Sort(bus)
	p := func(list []float64, share float64) float64 { return list[int(float64(len(list)-1)*share)] }
	t.Logf("%d frames: median %.0f ms, p99 %.0f ms; %d updates on the bus: median %.1f ms, p99 %.1f ms", len(took),
		p(took, .5), p(took, .99), len(bus), p(bus, .5), p(bus, .99))
}
