package system

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/bus/live"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// Options configure a system, which always has the echo tool. Only Model is required.
type Options struct {
	Model          driver.Model
	Tools          []tools.Tool
	Streams        streams.Options
	SnapshotEvery  uint64
	UpdateInterval time.Duration
	Limits         schemas.Limits
	AbortGrace     time.Duration
	Logger         *slog.Logger // of the runner; nil discards
	Host           func(*host.Options)
}

// System is a runner, a toolworker and a client. The client shares the worker's connections.
type System struct {
	*Runner
	URL    string
	Client *bus.Conn
	ended  sync.Map // session -> chan struct{}, sent to at agent_end
}

// Start serves the model and the tools until the test ends. It returns once both are ready.
func Start(tb testing.TB, url string, o Options) *System {
	tb.Helper()
	s := &System{URL: url}
	s.Runner = StartRunner(tb, url, RunnerOptions{
		Model: o.Model, Streams: o.Streams, Inbox: inbox.Options{Logger: o.Logger},
		Updates: live.Options{Interval: o.UpdateInterval},
		Host: func(h *host.Options) {
			h.OnEvent, h.SnapshotEvery, h.AbortGrace, h.Defaults.Limits = s.event, o.SnapshotEvery, o.AbortGrace, o.Limits
			if o.Host != nil {
				o.Host(h)
			}
		},
	})
	s.Client = Connect(tb, url, "toolworker")
	served := append([]tools.Tool{Echo}, o.Tools...)
	StartWorker(tb, s.Client, "bench", served...)
	wait, cancel := context.WithTimeout(tb.Context(), Deadline)
	defer cancel()
	for _, tool := range served {
		if err := s.Toolbox.Wait(wait, tool.Name); err != nil {
			tb.Fatal(err)
		}
	}
	return s
}

// StartAlone starts a system on a server of its own.
func StartAlone(tb testing.TB, o Options) *System {
	tb.Helper()
	return Start(tb, StartServer(tb, false).ClientURL(), o)
}

func (s *System) event(e schemas.Event, _ *loop.State) {
	if e.Type() != schemas.EventAgentEnd {
		return
	}
	if c, ok := s.ended.Load(e.Session); ok {
		c.(chan struct{}) <- struct{}{}
	}
}

// Ended returns a channel that gets a value whenever a run of the session ends. The caller has to receive each value.
func (s *System) Ended(session string) <-chan struct{} {
	c, _ := s.ended.LoadOrStore(session, make(chan struct{}, 1))
	return c.(chan struct{})
}

// Run sends a prompt and waits for the end of its run. It may be called concurrently for different sessions.
func (s *System) Run(tb testing.TB, session string) {
	ended := s.Ended(session)
	subject := s.Client.Subjects().Command(session, schemas.CommandPrompt)
	if _, err := s.Client.JetStream().Publish(tb.Context(), subject, []byte("go")); err != nil {
		tb.Error(err)
		return
	}
	<-ended
}
