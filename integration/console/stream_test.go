//go:build unix

package console_test

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

var streaming = flag.Duration("streaming", 3*time.Second, "have the model of TestStreaming speak for so long")

const (
	deltaEvery = 10 * time.Millisecond
	delta      = "So it goes on, word by word.\n"
	// deltasInReply is where a reply ends, and the run goes on with another one after a call.
	deltasInReply = 1000
)

// talking is a model that says what script has until somebody asks it to talk; then it talks, in one run.
type talking struct {
	script driver.Model
	until  time.Duration
	began  time.Time // when it was asked; of the one run
}

func (m *talking) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	said, asked := 0, false
	for _, message := range req.Messages {
		switch message := message.(type) {
		case *schemas.UserMessage:
			asked = asked || message.Content.JoinText() == "talk"
		case *schemas.AssistantMessage:
			if asked {
				said++
			}
		}
	}
	if !asked {
		return m.script.Stream(ctx, req)
	}
	if said == 0 {
		m.began = time.Now()
	}
	n := min(deltasInReply, int((m.until-time.Since(m.began))/deltaEvery)) // a busy machine misses ticks
	return func(yield func(schemas.StreamEvent, error) bool) {
		reply := &schemas.AssistantMessage{StopReason: schemas.StopStop,
			Content: schemas.Contents{schemas.Text{Text: strings.Repeat(delta, max(n, 0))}}}
		end := schemas.StreamEvent{Type: schemas.StreamDone, Reason: schemas.StopStop, Message: reply}
		if n == deltasInReply {
			reply.Content = append(reply.Content,
				schemas.ToolCall{ID: fmt.Sprint("t", said), Name: "echo", Arguments: []byte(`{}`)})
			reply.StopReason, end.Reason = schemas.StopToolUse, schemas.StopToolUse
		}
		ok := yield(schemas.StreamEvent{Type: schemas.StreamStart, Message: &schemas.AssistantMessage{}}, nil) &&
			yield(schemas.StreamEvent{Type: schemas.StreamTextStart}, nil)
		tick := time.NewTicker(deltaEvery)
		defer tick.Stop()
		for range n {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			ok = ok && yield(schemas.StreamEvent{Type: schemas.StreamTextDelta, Delta: delta}, nil)
		}
		_ = ok && yield(schemas.StreamEvent{Type: schemas.StreamTextEnd, Content: strings.Repeat(delta, max(n, 0))}, nil) &&
			yield(end, nil)
	}
}

// frames counts the frames of a page and how long after one another they come, until it is asked.
const frames = `window.frames_ = []; window.long_ = [];
	new PerformanceObserver((list) => long_.push(...list.getEntries().map((e) => e.duration)))
		.observe({ entryTypes: ["longtask"] });
	(() => { let last = performance.now();
		const look = (now) => { frames_.push(now - last); last = now; requestAnimationFrame(look); };
		requestAnimationFrame(look); })(); true`

// A session of 4,000 events streams. The page keeps only the visible entries and the events in memory, and renders its
// frames in time. With -streaming 1h the test measures for an hour.
func TestStreaming(t *testing.T) {
	script := make([]scripted.Response, 0, 500)
	for n := range 499 {
		script = append(script, echo(fmt.Sprintf("call %d", n)))
	}
	script = append(script, scripted.Text("that was all"))
	w := newWorld(t, system.Options{Model: &talking{script: chunked(t, script...), until: *streaming},
		UpdateInterval: 25 * time.Millisecond, Limits: schemas.Limits{MaxTurns: 1000}})
	log := w.Prompted(t, "s1", "go", 1)
	page := w.open("#/s/s1")
	page.until("all of it is read", "document.querySelector('.composer')")
	page.shows(".entries", "that was all")
	first := page.use()
	ended := w.Ended("s1")
	w.Prompt(t, "s1", "talk")
	page.shows(".message.assistant header", "streaming")
	before := page.use()
	eval[bool](page, frames)
	began := time.Now()
	select {
	case <-ended:
	case <-time.After(*streaming + 2*system.Deadline):
		t.Fatal("the run never ended")
	}
	page.until("the end is shown", "document.querySelector('.list').lastElementChild.matches('.end')")
	took := time.Since(began)
	after := page.use()
	page.shows(".entries", "So it goes on, word by word.")
	times := eval[[]float64](page, "frames_.sort((a, b) => a - b)")
	long := eval[[]float64](page, "long_.sort((a, b) => a - b)")
	t.Logf("%d events, then %.0f s of streaming: %d frames, median %.1f ms, p99 %.1f ms; %d long tasks; %.2f ms of "+
		"the page's thread a frame; heap %.1f MB before, %.1f MB while it began, %.1f MB after; %d nodes, then %d",
		len(log), took.Seconds(), len(times), times[len(times)/2], times[len(times)*99/100], len(long),
		1000*(after.busy-before.busy)/float64(len(times)), first.heap, before.heap, after.heap, first.nodes, after.nodes)
	if grown := after.heap - first.heap; grown > 30+float64(len(w.LogOf(t, "s1")))/100 {
		t.Errorf("the heap has grown by %.1f MB", grown)
	}
	if n := eval[int](page, "document.querySelectorAll('.list > article').length"); n > 200 {
		t.Errorf("%d entries are on the page", n)
	}
}

// use is what a page takes at a moment: seconds of its thread, megabytes of its heap, and nodes, after a collection.
type use struct {
	busy, heap float64
	nodes      int64
}

func (w *window) use() (u use) {
	w.t.Helper()
	_, err := chromedp.Call(w.ctx, performance.Enable,
		performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
	if err == nil {
		_, err = chromedp.Call(w.ctx, heapprofiler.CollectGarbage, cdp.Empty{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	heap, err := chromedp.Call(w.ctx, runtime.GetHeapUsage, cdp.Empty{})
	if err != nil {
		w.t.Fatal(err)
	}
	metrics, err := chromedp.Call(w.ctx, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		w.t.Fatal(err)
	}
	u.heap = heap.UsedSize / 1e6
	for _, m := range metrics.Metrics {
		switch m.Name {
		case "TaskDuration":
			u.busy = m.Value
		case "Nodes":
			u.nodes = int64(m.Value)
		}
	}
	return u
}
