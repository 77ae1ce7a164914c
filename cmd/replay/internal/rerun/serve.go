package rerun

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

// answering is a worker that answers the calls of a rerun from the log. The zero value answers none.
type answering struct {
	channel string
	tools   []string
	stop    func()
}

// answer announces the recorded tools and serves them until stop is called. It returns when they are announced.
func (r *Rerun) answer(ctx context.Context) (*answering, error) {
	a := &answering{channel: r.Channel(), stop: func() {}}
	if len(r.Plan.Config.Tools) == 0 {
		return a, nil
	}
	announced, ended := make(chan struct{}), make(chan error, 1)
	o := worker.Options{ID: a.channel + "-" + strings.ToLower(rand.Text()[:6]), NC: r.Client.NATS(), JS: r.JetStream,
		Subjects: r.Client.Subjects(), Workspace: a.channel, Concurrency: 16, StopTimeout: time.Nanosecond,
		Logger: r.Logger, Announced: func() { close(announced) }}
	for _, def := range r.Plan.Config.Tools {
		o.Tools = append(o.Tools, r.tool(def))
		a.tools = append(a.tools, def.Name)
	}
	w, err := worker.New(o)
	if err != nil {
		return nil, fmt.Errorf("answer the tools of session %s: %w", r.Plan.Session, err)
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() { ended <- w.Run(serving) }()
	a.stop = func() {
		stop()
		if err := <-ended; err != nil {
			r.Logger.Warn("tools are not withdrawn", "workspace", a.channel, "err", err)
		}
		r.removeQueues(ctx, o.Tools)
	}
	soon, cancel := context.WithTimeout(ctx, announceWithin)
	defer cancel()
	select {
	case <-announced:
		return a, nil
	case err := <-ended:
		stop()
		return nil, fmt.Errorf("answer the tools of session %s: %w", r.Plan.Session, err)
	case <-soon.Done():
		a.stop()
		return nil, fmt.Errorf("announce the tools of session %s: %w", r.Plan.Session, context.Cause(soon))
	}
}

// tool returns a recorded tool that answers from the log. It is idempotent: repeating an answer has no effect.
func (r *Rerun) tool(def schemas.ToolDefinition) tools.Tool {
	def.Workspace, def.Version, def.Channel = r.Channel(), "", true
	if def.EffectClass() != schemas.EffectReadOnly {
		def.Effect = schemas.EffectIdempotent
	}
	execute := func(ctx context.Context, call tools.Call) (schemas.ToolResult, error) {
		if call.Session != r.Choices.Session {
			return schemas.ToolResult{}, tools.Failf("only session %s is answered here", r.Choices.Session)
		}
		return r.result(ctx, r.Plan.Answers.Take(call.Key, def.Name, call.Arguments))
	}
	return tools.Tool{ToolDefinition: def, Execute: execute}
}

func (r *Rerun) result(ctx context.Context, g Given) (schemas.ToolResult, error) {
	switch {
	case g.Missing:
		text := r.Plan.Answers.missing(g.ToolName)
		if !r.Choices.Stop {
			return schemas.ToolResult{}, tools.Failure(text)
		}
		// The abort is stored in the inbox before the result, so no model is called in between.
		_, err := r.Client.Session(r.Choices.Session).Send(ctx, &schemas.Abort{Reason: text}, client.WithID(r.id("stop")))
		return schemas.ToolResult{}, errors.Join(tools.Failure(text), err)
	case g.isError:
		return schemas.ToolResult{}, tools.Failure(g.result.Content.JoinText()) // which is what a worker makes of an error
	}
	return g.result, nil
}

// removeQueues deletes the consumers of the rerun's queues, which no worker will serve again.
func (r *Rerun) removeQueues(ctx context.Context, all []tools.Tool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortWithin)
	defer cancel()
	for _, t := range all {
		err := r.JetStream.DeleteConsumer(ctx, schemas.StreamTools, t.Queue().Name())
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			r.Logger.Warn("the queue of a tool is left behind", "queue", t.Queue().Name(), "err", err)
		}
	}
}

// check returns an error if the run has started before its runner knew the announced tools.
func (a *answering) check(e *schemas.Event) error {
	if e == nil || len(a.tools) == 0 {
		return nil
	}
	d, ok := e.Data.(*schemas.AgentStart)
	if !ok || d.Config == nil {
		return nil
	}
	for _, layer := range d.Config.Layers {
		if layer.Name != "channel" {
			continue
		}
		for _, name := range a.tools {
			if !slices.Contains(layer.Added, name) {
				return fmt.Errorf("the run has begun without the tool %s, which its runner had not heard of yet: "+
					"re-run once more, as another session", name)
			}
		}
	}
	return nil
}
