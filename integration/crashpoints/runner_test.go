package crashpoints_test

import (
	"context"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/cmd/wiring"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

// abortGrace is how long aborted tools may take before the runner writes their results: it matters for calls that were
// never dispatched.
const abortGrace = 500 * time.Millisecond

// callsInQueue is so small that scenarios with two calls of one tool exceed the window.
const callsInQueue = 1

// retryDelay is short enough that a session stays awake until the first retry. Twice that is long enough that it comes
// to rest, and a timer wakes it for the second one.
const retryDelay = 600 * time.Millisecond

// compactReserve is the number of tokens that a compaction leaves for a reply.
const compactReserve = 100

// textRetryable is the error of failed replies that are retried.
const textRetryable = "529 overloaded"

// startRunner starts a runner in the stage and returns once it reads the inbox. A trial may be running.
func (l *stage) startRunner(t testing.TB, tr *trial) {
	t.Helper()
	p := startProcess(t, l, l.name("runner"), tr)
	runner, err := wiring.New(l.ctx, p.conn, wiring.Options{
		ID: p.id, Streams: streams.Options{Partitions: 1},
		Inbox: inbox.Options{Takeover: inbox.MinTakeover, MaxDeliver: 1000, StopTimeout: 10 * time.Millisecond},
		Host: host.Options{
			Deps: driver.Deps{
				Model: model{l, p}, AbortGrace: abortGrace, CallWindow: callsInQueue,
				Retryable: func(reply *schemas.AssistantMessage) bool { return reply.ErrorMessage == textRetryable },
			},
			Defaults: schemas.RunConfig{
				Model:    schemas.ModelRef{API: "scripted", Provider: "scripted", ID: "scripted"},
				Limits:   schemas.Limits{RunTimeoutMs: time.Hour.Milliseconds()},
				Approval: schemas.ApprovalPolicy{Tools: []string{toolAsk}},

				Retry: schemas.RetryPolicy{MaxRetries: 2, BaseDelayMs: retryDelay.Milliseconds()},

				Compaction: schemas.CompactionPolicy{Enabled: true, ReserveTokens: compactReserve, KeepRecentTokens: 1},
			},
			Window: func(m schemas.ModelRef) int64 {
				if m.ID == narrow {
					return narrowWindow
				}
				return 0 // the size of this context is unknown
			},
			SnapshotEvery: 8, Policy: schemas.ToolPolicy{Extensions: []string{schemas.ToolAgent}},
		},
		Change:  func(o *host.Options) { o.Toolbox = withAgent{l.toolbox} },
		Logger:  l.log.Logger(),
		Handler: func(h inbox.Handler) inbox.Handler { return counted{h, p} },
	})
	if err != nil {
		t.Fatal(err)
	}
	p.run(func(ctx context.Context) error {
		defer runner.Close()
		return runner.Run(ctx)
	})
	p.runners = runner.Inbox.Runners
	l.runner = p
	if !p.await(runner.Ready()) {
		t.Fatalf("the runner is not ready: %s", p.describe())
	}
}

// counted counts the deliveries in a runner's handler.
type counted struct {
	inbox.Handler
	p *process
}

func (c counted) Deliver(ctx context.Context, cmd schemas.Command, entered func()) error {
	c.p.calls.Add(1)
	defer c.p.calls.Add(-1)
	return c.Handler.Deliver(ctx, cmd, entered)
}

// model connects a runner to the model of the current trial.
type model struct {
	stage *stage
	p     *process
}

// Stream streams the scenario's reply. Every event of it is a point. It sends the last event only when the reply's
// message_start is stored, as a real model does, because it takes longer: a model call does not wait for the log, so
// with a model that takes no time a run could be several calls ahead of its log when the runner dies.
func (m model) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		tr := m.stage.current(req.SessionID)
		if tr == nil || !m.p.moment(point{kind: pointModel, label: "call"}) {
			return
		}
		at, answers := place{Replies: replies(req.Messages), Attempt: req.Attempt}, tr.model
		if tr.session != req.SessionID {
			at.Of = promptOf(req.Messages)
			answers = childModel(at.Of)
		}
		if req.MaxTokens > 0 { // a part of a summary: each part has its own limit
			at.Replies = -int(req.MaxTokens)
		}
		tr.ask(at, m.p.tap.isLate())
		begun, held := false, at.Of == "" && at.Replies == tr.scenario.hold-1
		for e, err := range answers.Stream(ctx, req) {
			begun = begun || e.Type == schemas.StreamStart
			if e.Type == schemas.StreamError && e.Message.ErrorMessage == textOverflow {
				e.FailureCode = schemas.FailureContextOverflow
			}
			if begun && e.Terminal() && !tr.witness(req.SessionID).awaitReply(ctx, at.Replies, m.p.gateway.Dead()) {
				return
			}
			if !m.p.moment(point{kind: pointModel, label: string(e.Type)}) || !yield(e, err) {
				return
			}
			if e.Type != schemas.StreamTextDelta {
				continue
			}
			if held {
				tr.hold(ctx, m.p)
				held = false
			} else if strings.HasPrefix(at.Of, waiting) {
				tr.holdChild(ctx, m.p, at.Of)
			}
		}
	}
}

// hold blocks a model or a tool until the scenario releases it, it is aborted, or its process is dead.
func (tr *trial) hold(ctx context.Context, p *process) {
	tr.held.fire()
	select {
	case <-tr.open.done:
	case <-ctx.Done():
	case <-p.gateway.Dead():
	}
}

// replies returns the number of replies in a transcript.
func replies(messages schemas.Messages) (n int) {
	for _, m := range messages {
		if m.MessageRole() == schemas.RoleAssistant {
			n++
		}
	}
	return n
}
