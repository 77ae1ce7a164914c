package bash

import (
	"sync"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// live passes output on to its collector and sends updates: at once when there is new output, but no second one within
// the update interval, and a last one at the end.
type live struct {
	out    *output
	update func(schemas.ToolResult)
	news   chan struct{} // has a token when there is new output
	quit   chan struct{}
	done   sync.WaitGroup
}

func startLive(out *output, every time.Duration, update func(schemas.ToolResult)) *live {
	l := &live{out: out, update: update, news: make(chan struct{}, 1), quit: make(chan struct{})}
	update(schemas.ToolResult{}) // reports that the command has started
	l.done.Go(func() { l.tell(every) })
	return l
}

// Write passes p to the collector.
func (l *live) Write(p []byte) (int, error) {
	n, err := l.out.Write(p)
	select {
	case l.news <- struct{}{}:
	default:
	}
	return n, err
}

func (l *live) tell(every time.Duration) {
	for {
		select {
		case <-l.news:
			l.show()
		case <-l.quit:
			return
		}
		select {
		case <-time.After(every):
		case <-l.quit:
			return
		}
	}
}

// stop returns after the last update.
func (l *live) stop() {
	close(l.quit)
	l.done.Wait()
	select {
	case <-l.news:
		l.show()
	default:
	}
}

func (l *live) show() {
	now := l.out.snapshot()
	result := schemas.TextResult(now.cut.Content)
	details, err := now.details()
	if err != nil {
		return // skip this update
	}
	result.Details = details
	l.update(result)
}
