package agent_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/loopbus/loopbus/loop/agent"
	"github.com/loopbus/loopbus/schemas"
)

// The actions that are more than a call of the agent.
const (
	doPrompt      = "prompt"
	doContinue    = "continue"
	doWaitForIdle = "waitForIdle"
	doSnapshot    = "snapshot"
	doAwait       = "await"
	doThrow       = "throw"
)

// perform performs one entry of "do".
func (p *player) perform(a action) {
	p.pause()
	switch a.Do {
	case doAwait:
		p.mu.Lock()
		ctx := p.runCtx
		p.mu.Unlock()
		_ = p.trace.wait(ctx, *a.On) // fails only when the watchdog has barked
		return
	case doSnapshot:
		p.snapshot(a.Label)
		return
	}
	entry := object{"do": a.Do}
	p.mu.Lock()
	p.calls = append(p.calls, entry)
	p.mu.Unlock()
	if a.Background {
		p.inBackground(a, entry)
		return
	}
	p.complete(entry, a)
	switch a.Do {
	case doPrompt, doContinue:
		p.note(a.Do + " returns")
	case doWaitForIdle:
		p.note("idle")
	}
}

// inject performs one entry of a rule.
func (p *player) inject(a action) {
	if a.Do == doSnapshot {
		p.snapshot(a.Label)
		return
	}
	entry := object{"do": a.Do, "after": p.trace.count()}
	p.mu.Lock()
	p.injected = append(p.injected, entry)
	p.mu.Unlock()
	p.complete(entry, a)
}

// inBackground returns when the run has emitted its first event, or has ended without.
func (p *player) inBackground(a action, entry object) {
	before := p.trace.count()
	ended := make(chan struct{})
	p.background.Add(1)
	go func() {
		defer p.background.Done()
		defer close(ended)
		p.complete(entry, a)
	}()
	p.trace.waitBeyond(before, ended)
}

// complete performs an action and adds its outcome to its entry.
func (p *player) complete(entry object, a action) {
	returned, err := p.act(a)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil:
		entry["error"] = err.Error()
	case returned != nil:
		entry["returned"] = normalMessages(jsonValue(returned))
	}
}

// act returns the new messages of a bare loop, nil for everything else.
func (p *player) act(a action) (schemas.Messages, error) {
	if p.Level == levelLoop {
		return p.actOnLoop(a)
	}
	return nil, p.actOnAgent(a)
}

func (p *player) actOnLoop(a action) (returned schemas.Messages, err error) {
	switch a.Do {
	case doPrompt:
		returned, err = agent.RunLoop(p.loopCtx, p.loopConfig(), a.prompts()...)
	case doContinue:
		returned, err = agent.ContinueLoop(p.loopCtx, p.loopConfig())
	case "abort":
		p.cancelLoop()
		return nil, nil
	default:
		return nil, fmt.Errorf("no action %q at loop level", a.Do)
	}
	if err == nil && returned == nil {
		returned = schemas.Messages{}
	}
	return returned, err
}

func (p *player) actOnAgent(a action) error {
	ctx := context.Background()
	switch a.Do {
	case doPrompt:
		if a.Messages != nil {
			return resolved(p.agent.PromptMessages(ctx, a.Messages...))
		}
		return resolved(p.agent.Prompt(ctx, a.Text, a.images()...))
	case doContinue:
		return resolved(p.agent.Continue(ctx))
	case "steer":
		return p.agent.Steer(ctx, a.prompts()...)
	case "followUp":
		return p.agent.FollowUp(ctx, a.prompts()...)
	case "abort":
		p.agent.Abort()
		return nil
	case "reset":
		return p.agent.Reset(ctx)
	case "clearSteering":
		return p.agent.ClearSteeringQueue(ctx)
	case "clearFollowUps":
		return p.agent.ClearFollowUpQueue(ctx)
	case "clearQueues":
		return p.agent.ClearAllQueues(ctx)
	case doWaitForIdle:
		return p.agent.WaitForIdle(ctx)
	case "set":
		return p.set(ctx, a.Set)
	}
	return errors.New("no action " + a.Do)
}

// resolved is the error of a promise of pi's: a run that has begun rejects none, however it ends.
func resolved(_ agent.Result, err error) error {
	var refused *agent.RejectedError
	if errors.As(err, &refused) {
		return err
	}
	return nil
}

func (p *player) set(ctx context.Context, s settings) error {
	var errs []error
	assign(s.SteeringMode, func(m schemas.QueueMode) { errs = append(errs, p.agent.SetSteeringMode(ctx, m)) })
	assign(s.FollowUpMode, func(m schemas.QueueMode) { errs = append(errs, p.agent.SetFollowUpMode(ctx, m)) })
	assign(s.ToolExecution, p.agent.SetToolExecution)
	assign(s.SessionID, p.agent.SetSessionID)
	assign(s.SystemPrompt, p.agent.SetSystemPrompt)
	assign(s.ThinkingLevel, p.agent.SetThinkingLevel)
	if s.Messages != nil {
		errs = append(errs, p.agent.SetMessages(ctx, *s.Messages...))
	}
	if s.Tools != nil {
		p.agent.SetTools(p.tools(s.Tools)...)
	}
	return errors.Join(errs...)
}

func assign[T any](value *T, set func(T)) {
	if value != nil {
		set(*value)
	}
}

func (p *player) snapshot(label string) {
	o := p.state()
	o["label"], o["after"] = label, p.trace.count()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.snapshots = append(p.snapshots, o)
}
