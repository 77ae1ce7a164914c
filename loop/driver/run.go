package driver

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// resume does once, for the state that driving begins with, what a crash may have left undone. If another process died
// in the middle of its work, or this driver was stopped there, resume closes what was left open and appends
// run_resumed; the loop then continues by itself (docs/architecture.md).
func (d *Driver) resume(ctx context.Context) error {
	d.recount()
	if d.resumed {
		return nil
	}
	d.resumed = true
	d.armDeadline() // again: the process that started the run may have died before it did
	var from uint64
	var streaming, where string
	d.View(func(s *loop.State) { from = d.loaded; streaming, where = interrupted(s) })
	if where == "" || d.waited {
		return nil
	}
	if streaming != "" {
		if err := d.closeStreaming(ctx, streaming, "interrupted: the runner was lost"); err != nil {
			return err
		}
	}
	return d.emit(ctx, &schemas.RunResumed{From: from, Reason: where, MessageID: streaming}, "")
}

// markLoaded has the next driving begin with the present state, as in a process that has just loaded it. The caller
// holds the lock.
func (d *Driver) markLoaded() {
	d.loaded, d.resumed, d.waited = d.state.Seq, d.state.Run == nil, false
	if d.state.Run != nil {
		_, d.waited = loop.Next(d.state).(loop.Rest)
	}
}

// interrupted returns where work was interrupted, "" if it was not, and the id of the reply that was being streamed. A
// run that only waits was not interrupted.
func interrupted(s *loop.State) (streaming, where string) {
	if s.Run == nil {
		return "", ""
	}
	if t := s.Run.Turn; t != nil && t.Streaming != "" {
		return t.Streaming, "while the model was streaming"
	}
	switch step := loop.Next(s).(type) {
	case loop.CallModel:
		return "", "before the model was called"
	case loop.StartCompaction, loop.Summarize:
		return "", "before the context was summed up"
	case loop.AbortSubagent:
		return "", "before a sub-agent was told to stop"
	case loop.Emit:
		return "", fmt.Sprintf("before %s", step.Data.EventType())
	case loop.RunTools:
		for _, i := range step.Calls {
			if s.Run.Turn.Calls[i].Key == "" && !s.Sequential() {
				return "", "before all tool calls were dispatched"
			}
		}
	}
	return "", ""
}

// startRun resolves the configuration of a run and starts it. If that fails, the run starts with its inputs all the
// same, and fails. Commands may arrive while startRun works; after one it starts nothing and the step is chosen again,
// because the command may have withdrawn the input that the run was to start with, or changed the settings.
func (d *Driver) startRun(ctx context.Context, step loop.StartRun) error {
	var seq uint64
	var set loop.Settings
	var before schemas.RunConfig
	first := false
	d.View(func(s *loop.State) { seq, set, before, first = s.Seq, s.Settings.Clone(), s.Config, s.Runs == 0 })
	if err := d.room(); err != nil {
		return err
	}
	config, failure := d.configure(ctx, set)
	if failure == nil && len(step.Inputs) > 0 {
		if asked, err := d.askBegin(ctx, step.Inputs[0], config); asked {
			return err
		}
		if begin := step.Inputs[0].Begin; begin != nil && begin.SystemPrompt != nil {
			config.SystemPrompt = *begin.SystemPrompt
		}
	}
	start := &schemas.AgentStart{SkipSteering: step.SkipSteering}
	for _, in := range step.Inputs {
		start.Inputs = append(start.Inputs, in.CommandID)
	}
	if failure == nil && (first || !sameConfig(config, before)) {
		start.Config = &config
	}
	if failure != nil {
		d.logPanic(failure)
		start.ErrorMessage = strings.ToValidUTF8(failure.Error(), "\uFFFD")
	}
	cause := ""
	if len(start.Inputs) > 0 {
		cause = start.Inputs[0]
	}
	var begun shown
	var err error
	d.View(func(s *loop.State) {
		if s.Seq == seq {
			d.startRunSpan(ctx, step.Inputs, config.Profile)
			begun, err = d.append(ctx, start, cause)
		}
	})
	if err == nil && begun.appended {
		if err = d.show(ctx, begun); err == nil {
			d.armDeadline()
		}
	}
	return err
}

// configure resolves the configuration of the next run.
func (d *Driver) configure(ctx context.Context, set loop.Settings) (schemas.RunConfig, error) {
	return resultOf(d, "configure", func() (schemas.RunConfig, error) { return d.o.Configure(ctx, d.session, set) })
}

func sameConfig(a, b schemas.RunConfig) bool {
	x, errX := schemas.Marshal(a)
	y, errY := schemas.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// endRun releases what belongs to the run that has just ended, except its abort signal, which the listeners of
// agent_end still get. The caller holds the lock.
func (d *Driver) endRun(end *schemas.AgentEnd) {
	d.forgetCalls(spanAborted)
	d.spans.endRun(end)
	d.disarmDeadline()
}

// askHooks calls the hooks that take the place of queues and settings in a program without a bus, each once per
// sequence of the log.
func (d *Driver) askHooks(ctx context.Context) error {
	h := d.o.Hooks
	err := d.askStop(ctx)
	if err == nil {
		err = d.pollHook(ctx, h.GetSteeringMessages, &d.steered, (*loop.State).AtSteeringPoll, schemas.CommandSteer)
	}
	if err == nil {
		err = d.pollHook(ctx, h.GetFollowUpMessages, &d.followed, (*loop.State).AtFollowUpPoll, schemas.CommandFollowUp)
	}
	return err
}

func (d *Driver) askStop(ctx context.Context) error {
	if d.o.Hooks.ShouldStopAfterTurn == nil {
		return nil
	}
	var stop schemas.EventData
	var turn TurnContext
	d.View(func(s *loop.State) {
		if d.stopped == s.Seq {
			return
		}
		if stop = s.Stop(); stop != nil {
			d.stopped = s.Seq
			turn = turnContext(s)
		}
	})
	if stop == nil {
		return nil
	}
	yes, err := resultOf(d, "shouldStopAfterTurn", func() (bool, error) {
		return d.o.Hooks.ShouldStopAfterTurn(d.runSignal(ctx), turn)
	})
	if err != nil {
		return d.fail(ctx, err)
	}
	if !yes {
		return nil
	}
	d.View(func(s *loop.State) { stop = s.Stop() }) // a command may have changed the state
	return d.emit(ctx, stop, "")
}

// turnContext returns what the hook is shown of the turn that has just ended, whose reply and results are the newest
// messages.
func turnContext(s *loop.State) TurnContext {
	t := TurnContext{Context: contextView(s), NewMessages: s.MessagesByID(s.Run.New), ToolResults: schemas.Messages{}}
	for i := len(t.NewMessages) - 1; i >= 0; i-- {
		if reply, ok := t.NewMessages[i].(*schemas.AssistantMessage); ok {
			t.Message, t.ToolResults = reply, t.NewMessages[i+1:]
			break
		}
	}
	return t
}

// pollHook calls a hook and puts the messages that it returns into the queue of the given kind.
func (d *Driver) pollHook(ctx context.Context, hook func(context.Context) (schemas.Messages, error), polled *uint64,
	due func(*loop.State) bool, kind schemas.CommandKind) error {
	if hook == nil {
		return nil
	}
	var seq uint64
	d.View(func(s *loop.State) {
		if due(s) && *polled != s.Seq {
			seq = s.Seq
		}
	})
	if seq == 0 {
		return nil
	}
	*polled = seq
	messages, err := resultOf(d, "queue hook", func() (schemas.Messages, error) { return hook(d.runSignal(ctx)) })
	if err != nil {
		return d.fail(ctx, err)
	}
	for i, m := range messages {
		input := schemas.Input{Messages: schemas.Messages{m}}
		c := schemas.Command{ID: fmt.Sprintf("hook-%d-%d", seq, i), Session: d.session, Data: &schemas.Steer{Input: input}}
		if kind == schemas.CommandFollowUp {
			c.Data = &schemas.FollowUp{Input: input}
		}
		refused, err := d.Accept(ctx, c)
		if err != nil {
			return err
		}
		if refused != nil {
			return d.fail(ctx, fmt.Errorf("message of a queue hook: %s", refused.Reason))
		}
	}
	return nil
}
