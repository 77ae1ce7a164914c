package rerun

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
)

// Answers are what the tools of a session have answered, by tool and arguments, in the order of the log. A call is the
// same if its tool has the same name and its arguments are the same JSON, whatever the order of their members, after
// the tool has rewritten and coerced them. What a runner answered itself, because a call was refused or nobody served
// the tool, is no answer of a tool. All methods may be called concurrently once the log is recorded.
type Answers struct {
	session string
	cut     uint64
	byCall  map[string][]*answer
	open    map[schemas.CallKey]*answer // calls that are recorded and have no answer yet

	mu    sync.Mutex
	given map[schemas.CallKey]Given
	order []schemas.CallKey
}

type answer struct {
	tool    string
	keys    []string
	seq     uint64 // of its tool_execution_end
	result  schemas.ToolResult
	isError bool
	repeats bool // the tool only reads: it may be asked again
	used    bool
}

// Given is what a call of the rerun was answered with: the answer that ends at the event Seq of the recorded session,
// or, where Missing, none.
type Given struct {
	Call     schemas.CallKey `json:"call"`
	ToolName string          `json:"toolName"`
	Args     json.RawMessage `json:"args"`
	Seq      uint64          `json:"seq,omitempty"`
	Missing  bool            `json:"missing,omitempty"`

	result  schemas.ToolResult
	isError bool
}

func newAnswers(session string) *Answers {
	return &Answers{session: session, byCall: map[string][]*answer{}, open: map[schemas.CallKey]*answer{},
		given: map[schemas.CallKey]Given{}}
}

// record takes in an event that has just been folded into the state.
func (a *Answers) record(s *loop.State, e schemas.Event) {
	switch d := e.Data.(type) {
	case *schemas.ToolExecutionStart:
		def := s.Definition(d.ToolName)
		a.open[schemas.NewCallKey(e.Seq)] = &answer{tool: d.ToolName,
			keys:    []string{callKey(d.ToolName, prepared(def, d.Args))},
			repeats: def != nil && def.EffectClass() == schemas.EffectReadOnly}
	case *schemas.HookDecision: // a service may have had the call executed with other arguments
		if one := a.open[d.Call]; one != nil && d.Args != nil {
			one.keys = append(one.keys, callKey(one.tool, d.Args))
		}
	case *schemas.ToolExecutionEnd:
		one := a.open[d.Call]
		delete(a.open, d.Call)
		if one == nil || d.IsError && d.Worker == "" {
			return
		}
		one.seq, one.result, one.isError = e.Seq, d.Result, d.IsError
		slices.Sort(one.keys)
		for _, key := range slices.Compact(one.keys) {
			a.byCall[key] = append(a.byCall[key], one)
		}
	}
}

// since says that the rerun begins after an event: what was answered before it is used up.
func (a *Answers) since(seq uint64) { a.cut = seq }

// Take answers a call of the rerun: with the next answer of the log that is of the same call and has not been given;
// for a tool that only reads, once there is none left, with the last one again. The same call gets the same answer.
func (a *Answers) Take(call schemas.CallKey, tool string, args json.RawMessage) Given {
	a.mu.Lock()
	defer a.mu.Unlock()
	if g, ok := a.given[call]; ok {
		return g
	}
	g := Given{Call: call, ToolName: tool, Args: args, Missing: true}
	if one := a.next(callKey(tool, args)); one != nil {
		one.used = true
		g.Seq, g.result, g.isError, g.Missing = one.seq, one.result, one.isError, false
	}
	a.given[call] = g
	a.order = append(a.order, call)
	return g
}

func (a *Answers) next(key string) *answer {
	all := a.byCall[key]
	for _, one := range all {
		if !one.used && one.seq > a.cut {
			return one
		}
	}
	if n := len(all); n > 0 && all[n-1].repeats {
		return all[n-1]
	}
	return nil
}

// Given lists the calls that have been answered, in the order in which they came.
func (a *Answers) Given() []Given {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]Given, len(a.order))
	for i, call := range a.order {
		list[i] = a.given[call]
	}
	return list
}

// missing is what a model is told of a call that the log does not have.
func (a *Answers) missing(tool string) string {
	return fmt.Sprintf("This run is answered from the log of session %s, which has no such call of %s, or none that is "+
		"left. Nothing was executed.", a.session, tool)
}

// prepared are the arguments of a call as its tool was given them.
func prepared(def *schemas.ToolDefinition, args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if def == nil {
		return args
	}
	args = toolargs.Rewrite(def.ArgumentRewrites, args)
	schema, err := toolargs.Compile(def.Parameters)
	if err != nil {
		return args
	}
	valid, err := schema.Validate(context.Background(), def.Name, args)
	if err != nil { // the runner has refused them, and would again
		return args
	}
	return valid
}

// callKey names what calls that are the same have in common.
func callKey(tool string, args json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber() // 1 and 1.0 are two texts to a tool's command line
	var v any
	if err := d.Decode(&v); err != nil {
		return tool + " " + string(args)
	}
	canonical, err := json.Marshal(v)
	if err != nil {
		return tool + " " + string(args)
	}
	return tool + " " + string(canonical)
}
