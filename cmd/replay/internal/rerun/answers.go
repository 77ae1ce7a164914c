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

// Answers are the recorded results of a session's tools, by tool and arguments, in the order of the log. Two calls are
// the same if their tools have the same name and their arguments are the same JSON, regardless of the order of members,
// after rewriting and coercion. Results of the runner itself, because a call was refused or no worker served the tool,
// are not included. All methods may be called concurrently once the log is recorded.
type Answers struct {
	session string
	cut     uint64
	byCall  map[string][]*answer
	open    map[schemas.CallKey]*answer // recorded calls without an answer so far

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
	repeats bool // the tool is read-only: the answer may be given again
	used    bool
}

// Given records how a call of the rerun was answered: with the answer of the event Seq of the recorded session, or, if
// Missing, with none.
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

// record records an event that was just folded into the state.
func (a *Answers) record(s *loop.State, e schemas.Event) {
	if r := schemas.ReplacesArguments(e.Data); r != nil && a.open[r.Call] != nil {
		one := a.open[r.Call]
		one.keys = append(one.keys, callKey(one.tool, r.Arguments))
	}
	switch d := e.Data.(type) {
	case *schemas.ToolExecutionStart:
		def := s.Definition(d.ToolName)
		a.open[schemas.NewCallKey(e.Seq)] = &answer{tool: d.ToolName,
			keys:    []string{callKey(d.ToolName, prepared(def, d.Args))},
			repeats: def != nil && def.EffectClass() == schemas.EffectReadOnly}
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

// since sets the event after which the rerun begins: earlier answers count as given.
func (a *Answers) since(seq uint64) { a.cut = seq }

// Take answers a call of the rerun with the next answer in the log to the same call that was not given yet. If a
// read-only tool has no answers left, Take repeats the last one. A redelivered call gets the same answer.
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

// Given returns the answered calls, in the order of arrival.
func (a *Answers) Given() []Given {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]Given, len(a.order))
	for i, call := range a.order {
		list[i] = a.given[call]
	}
	return list
}

// missing is the result of a call that the log does not contain.
func (a *Answers) missing(tool string) string {
	return fmt.Sprintf("This run is answered from the log of session %s, which has no such call of %s, or none that is "+
		"left. Nothing was executed.", a.session, tool)
}

// prepared returns the arguments of a call as its tool received them.
func prepared(def *schemas.ToolDefinition, args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if def == nil {
		return args
	}
	args = toolargs.Rewrite(context.Background(), def.ArgumentRewrites, args)
	schema, err := toolargs.Compile(def.Parameters)
	if err != nil {
		return args
	}
	valid, err := schema.Validate(context.Background(), def.Name, args)
	if err != nil { // the runner has refused these arguments
		return args
	}
	return valid
}

// callKey returns a key that is equal for calls that are the same.
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
