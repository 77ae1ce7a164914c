package driver

import (
	"context"
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// startCompaction starts a compaction with the run's configuration, or between runs with that of the next run.
func (d *Driver) startCompaction(ctx context.Context, step loop.StartCompaction) error {
	config, err := d.summaryConfig(ctx)
	if err != nil {
		return err
	}
	d.View(func(s *loop.State) {
		if loop.Next(s) == loop.Step(step) { // no command has changed that
			_, err = d.append(ctx, s.CompactionStart(step, config), step.CommandID)
		}
	})
	return err
}

// summaryConfig returns the configuration for summaries: the run's, or between runs that of the next run. If that
// cannot be resolved it is that of the last run.
func (d *Driver) summaryConfig(ctx context.Context) (config schemas.RunConfig, err error) {
	var set loop.Settings
	running := false
	d.View(func(s *loop.State) { config, set, running = s.Config, s.Settings.Clone(), s.Run != nil })
	if running {
		return config, nil
	}
	next, failure := d.configure(ctx, set)
	if ctx.Err() != nil {
		return config, ctx.Err()
	}
	if failure != nil {
		d.logPanic(failure)
		return config, nil
	}
	return next, nil
}

// summarySignal returns the abort signal for work on a summary. end releases the signal if no run is under way.
func (d *Driver) summarySignal(ctx context.Context) (signal context.Context, end func()) {
	signal, end = d.runSignal(ctx), func() {}
	d.View(func(s *loop.State) {
		if s.Run == nil {
			end = d.endSignal
		}
	})
	return signal, end
}

// summarize requests a summary from a model and appends the outcome.
func (d *Driver) summarize(ctx context.Context, step loop.Summarize) error {
	if over, err := d.waitUntil(ctx, step.NotBefore); !over || err != nil {
		return err
	}
	if err := d.room(); err != nil {
		return err
	}
	if asked, err := d.askBeforeCompact(ctx); asked || err != nil {
		return err
	}
	if err := d.verifyOwnership(ctx); err != nil {
		return err
	}
	var request loop.SummaryRequest
	var seq uint64
	ok := false
	d.View(func(s *loop.State) { request, ok = s.SummaryRequest(); seq = s.Seq })
	if !ok {
		return nil
	}
	signal, end := d.summarySignal(ctx)
	defer end()
	started := d.o.Clock.Now()
	reply, code := d.askForSummary(ctx, signal, request)
	if ctx.Err() != nil {
		return ctx.Err() // the driver stops: the next one requests the summary again
	}
	d.countForProfile(ctx, fmt.Sprintf("s%d", seq), reply)
	took := elapsed(started, d.o.Clock.Now())
	put := func() (err error) {
		d.View(func(s *loop.State) {
			end := s.SummaryEnd(reply, reply.StopReason == schemas.StopError && d.retryable(code, reply))
			if end == nil {
				return
			}
			if end.DurationMs = took; reply.StopReason == schemas.StopError {
				end.FailureCode = code
			}
			_, err = d.append(ctx, end, "")
		})
		return err
	}
	err := d.storeReply(ctx, signal, reply, put)
	if cut, failed := dropped(reply, err); cut != nil {
		reply, code = cut, failed
		err = put()
	}
	return err
}

// askForSummary returns the model's reply; a failure of any kind is a failed reply.
func (d *Driver) askForSummary(ctx, signal context.Context, r loop.SummaryRequest) (*schemas.AssistantMessage,
	schemas.FailureCode) {
	model := r.Ask.Model
	made := func(stop schemas.StopReason, why string) *schemas.AssistantMessage {
		return &schemas.AssistantMessage{
			API: model.API, Provider: model.Provider, Model: model.ID, StopReason: stop,
			ErrorMessage: strings.ToValidUTF8(why, "\uFFFD"), Timestamp: d.o.Clock.Now().UnixMilli(),
		}
	}
	use, err := d.profileUse(ctx)
	switch {
	case err != nil:
		return made(schemas.StopError, err.Error()), schemas.FailureQuota
	case use.reached(1):
		return made(schemas.StopError, textOverProfile), schemas.FailureQuota
	}
	req, err := d.summaryModelRequest(signal, r)
	c := &modelCall{d: d, ctx: ctx, req: req, silent: true}
	var final *schemas.AssistantMessage
	if err == nil {
		final, err = c.read(signal)
	}
	switch {
	case signal.Err() != nil:
		reply := made(schemas.StopAborted, textRequestAborted)
		if final != nil {
			reply.Usage = final.Usage
		}
		return reply, ""
	case c.idle.fired():
		return made(schemas.StopError, fmt.Sprintf("model %s sent nothing for %s", model, d.o.IdleTimeout)),
			schemas.FailureTimeout
	case err != nil:
		d.logPanic(err)
		return made(schemas.StopError, err.Error()), schemas.FailureCodeOf(err)
	case final == nil:
		return made(schemas.StopError, errNoEnd.Error()), schemas.FailureConnection
	}
	return schemas.ValidReply(final), c.failure
}

// summaryModelRequest returns the request to the model: one message, no tools.
func (d *Driver) summaryModelRequest(signal context.Context, r loop.SummaryRequest) (schemas.ModelRequest, error) {
	req := schemas.ModelRequest{
		Model: r.Ask.Model, SystemPrompt: r.SystemPrompt, ThinkingLevel: r.ThinkingLevel, MaxTokens: r.MaxTokens,
		Messages:  schemas.Messages{r.Message(d.o.Clock.Now().UnixMilli())},
		SessionID: d.session, Attempt: r.Attempt,
	}
	return req, d.apiKey(signal, &req)
}

// askBeforeCompact asks the services of session_before_compact, once. If it has asked, the step has to be chosen again.
func (d *Driver) askBeforeCompact(ctx context.Context) (asked bool, err error) {
	var hook schemas.HookName
	var req schemas.HookRequest
	d.View(func(s *loop.State) { hook, req = s.SummaryHook() })
	if hook == "" {
		return false, nil
	}
	return d.askAnyTime(ctx, hook, &req, func(a schemas.HookAnswer, decision *schemas.HookDecision) (bool, error) {
		switch {
		case a.Cancel:
			decision.Block, decision.Compaction = true, nil
			return true, errDecided
		case a.Compaction != nil:
			decision.Compaction = a.Compaction
			return true, nil
		}
		return false, nil
	})
}
