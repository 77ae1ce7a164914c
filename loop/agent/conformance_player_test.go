package agent_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/loopbus/loopbus/loop/agent"
	"github.com/loopbus/loopbus/loop/agentevent"
	"github.com/loopbus/loopbus/schemas"
)

// watchdogTime is what a scenario may take, and stuckTime what its goroutines then have to end. Scenarios take
// milliseconds, unless they hang.
const (
	watchdogTime = 20 * time.Second
	stuckTime    = 2 * time.Second
)

// A player plays one scenario once, through the public API alone, and keeps what there is to compare.
type player struct {
	scenario
	trace    *trace
	agent    *agent.Agent
	watchdog time.Duration

	loopCtx    context.Context // the abort signal of a bare loop
	cancelLoop context.CancelFunc

	mu        sync.Mutex // guards what follows and the scripts being used up
	dice      *rand.Rand // nil: no pauses
	runCtx    context.Context
	fired     []int // how often the pattern of each rule has matched
	llmCalls  []object
	executed  []object
	hookCalls []object
	calls     []object
	injected  []object
	snapshots []object
	log       []string

	background sync.WaitGroup
}

func newPlayer(s scenario, dice *rand.Rand) *player {
	p := &player{scenario: s, trace: newTrace(), watchdog: watchdogTime, dice: dice, fired: make([]int, len(s.Inject))}
	p.loopCtx, p.cancelLoop = context.WithCancel(context.Background())
	p.runCtx = p.loopCtx
	if s.Aborted {
		p.cancelLoop()
	}
	if s.Level == levelAgent {
		p.agent = p.newAgent()
	}
	return p
}

func (p *player) newAgent() *agent.Agent {
	agent, err := agent.New(context.Background(), agent.Options{
		SystemPrompt: p.SystemPrompt, Model: p.model(), ThinkingLevel: p.ThinkingLevel,
		Tools: p.tools(p.InitialTools), PrepareArguments: p.prepareArguments, Messages: p.Messages,
		SteeringMode: p.SteeringMode, FollowUpMode: p.FollowUpMode, ToolExecution: p.ToolExecution,
		SessionID: p.SessionID, Stream: scriptedModel{p}, Hooks: p.hooks(),
	})
	if err != nil {
		panic(err) // there is no log that could refuse anything
	}
	agent.Subscribe(p.listen)
	for _, name := range p.Listeners {
		agent.Subscribe(p.extraListener(name))
	}
	return agent
}

func (p *player) loopConfig() agent.LoopConfig {
	return agent.LoopConfig{
		Model: p.model(), SystemPrompt: p.SystemPrompt, Messages: p.Messages, Tools: p.tools(nil),
		PrepareArguments: p.prepareArguments,
		ThinkingLevel:    p.ThinkingLevel, ToolExecution: p.ToolExecution, SessionID: p.SessionID, APIKey: p.APIKey,
		Stream: scriptedModel{p}, Hooks: p.hooks(), Emit: p.listen,
	}
}

func (p *player) model() schemas.ModelRef {
	m := schemas.ModelRef{API: "scripted", Provider: "scripted", ID: "scripted-1"}
	if o := p.Model; o != nil {
		m = schemas.ModelRef{
			API: cmp.Or(o.API, m.API), Provider: cmp.Or(o.Provider, m.Provider), ID: cmp.Or(o.ID, m.ID),
		}
	}
	return m
}

// play performs the scenario's actions and returns what there is to compare, or an error if it cannot be played to its
// end.
func (p *player) play() (object, error) {
	defer p.cancelLoop()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for _, a := range p.Do {
			p.perform(a)
		}
		p.background.Wait()
	}()
	if !closedWithin(finished, p.watchdog) {
		err := fmt.Errorf("%w after %s; the trace so far:\n%s", errStuck, p.watchdog, p.trace)
		close(p.trace.stuck)
		p.cancelLoop()
		closedWithin(finished, stuckTime)
		return nil, err
	}
	return p.outcome(), p.unused()
}

func closedWithin(c <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return false
	}
}

// unused says what of the script was not played.
func (p *player) unused() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	if n := len(p.llmCalls); n != len(p.LLM) {
		errs = append(errs, fmt.Errorf("%d model calls for %d responses", n, len(p.LLM)))
	}
	for i, r := range p.Inject {
		if p.fired[i] < r.On.nth() {
			errs = append(errs, fmt.Errorf("inject pattern never matched: %s", r.On))
		}
	}
	return errors.Join(errs...)
}

func (p *player) outcome() object {
	p.mu.Lock()
	defer p.mu.Unlock()
	events := []any{}
	for _, e := range p.trace.events {
		events = append(events, e.value)
	}
	slices.SortStableFunc(p.executed, func(a, b object) int {
		return cmp.Compare(a["toolCallId"].(string), b["toolCallId"].(string))
	})
	o := object{
		"events": events, "llmCalls": p.llmCalls, "executed": p.executed, "hooks": p.hookCalls, "calls": p.calls,
		"injected": p.injected, "snapshots": p.snapshots,
	}
	if p.Listeners != nil {
		o["listenerLog"] = p.log
	}
	if p.agent != nil {
		state := p.state()
		state["messages"] = normalMessages(jsonValue(p.agent.State().Messages))
		o["state"] = state
	}
	return jsonValue(o).(object)
}

// state is the agent's state as a snapshot shows it.
func (p *player) state() object {
	s := p.agent.State()
	o := object{
		"isStreaming": s.IsStreaming, "messages": len(s.Messages), "streaming": nil,
		"pendingToolCalls": append([]string{}, s.PendingToolCalls...), "errorMessage": nil,
		"queued": p.agent.HasQueuedMessages(),
	}
	if s.StreamingMessage != nil {
		o["streaming"] = s.StreamingMessage.MessageRole()
	}
	if s.ErrorMessage != "" {
		o["errorMessage"] = s.ErrorMessage
	}
	return o
}

// listen is the recording listener. What it injects happens before the event counts as emitted.
func (p *player) listen(ctx context.Context, e agentevent.Event) error {
	index, event := p.trace.record(e)
	defer p.trace.emit(index)
	p.mu.Lock()
	p.runCtx = ctx
	p.mu.Unlock()
	var failure error
	for i, r := range p.Inject {
		if !p.fires(i, r.On, event) {
			continue
		}
		for _, a := range r.Do {
			p.pause()
			if a.Do == doThrow {
				failure = errors.New(a.Error)
				continue
			}
			p.inject(a)
		}
	}
	return failure
}

func (p *player) fires(i int, on pattern, e tracedEvent) bool {
	if !on.matches(e) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fired[i]++
	return on.Every || p.fired[i] == on.nth()
}

func (p *player) extraListener(name string) agentevent.Listener {
	return func(_ context.Context, e agentevent.Event) error {
		p.note(fmt.Sprintf("%s enters %s", name, e.Type))
		runtime.Gosched()
		p.pause()
		p.note(fmt.Sprintf("%s leaves %s", name, e.Type))
		return nil
	}
}

func (p *player) note(entry string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, entry)
}

// pause gives way a random number of times. The outcome must not depend on it.
func (p *player) pause() {
	p.mu.Lock()
	n := 0
	if p.dice != nil {
		n = p.dice.IntN(32)
	}
	p.mu.Unlock()
	for range n {
		runtime.Gosched()
	}
}
