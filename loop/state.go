// Package loop is the agent loop as a value. [State] is a fold over a session's events ([State.Apply]); [Next] chooses
// the next step from it; [Accept] returns the events that a command leads to. The package has no clock, goroutine, I/O,
// random number or environment. Ids, times, hook decisions, model output and tool output enter through events, so the
// fold is the same live and on replay, bit for bit.
//
// A driver (package loop/driver, or your own) has these duties, in this order:
//
//  1. Ask [Next] about the state after every event, and remember nothing else between steps.
//  2. Give every event the sequence State.Seq+1, the session, a time, and the ids from [State.Envelope]; append it to
//     the log; apply it.
//  3. [Emit]: append that event. [StartRun]: resolve the run's configuration and append agent_start. [CallModel]: call
//     the model and append message_start and message_end of its reply; the call need not wait for the log. [RunTools]:
//     begin the named calls, as its comment says. [Rest]: do nothing until a command or a result arrives. The other
//     steps say in their comments what to do.
//  4. Choose and append in one critical section: no other event may come between Next and the event it chose.
//  5. Dispatch no tool call before its tool_execution_start and all events before it are stored. Acknowledge no command
//     before its effect is stored. Publish no update before the event it belongs to is stored.
//
// Every prefix of a log is a state from which Next continues. Recovery needs nothing else.
//
// The conformance cases of the reference implementation, pi, in the testdata of package agent fix what the loop does in
// each situation. docs/behaviour.md lists the rules.
package loop

import (
	"fmt"
	"slices"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// FoldVersion is the version of the fold. A snapshot of another version must not be used: replay the log instead.
const FoldVersion = 4

// State is what a session's log folds to. The zero value is the state before the first event. Messages are what a model
// gets: the path from the root of the session's tree to its leaf; entries off the path are only in the log. A State is
// not safe for concurrent use. It shares its messages with the events they came from, and they must not be changed. Its
// JSON is the snapshot format of [FoldVersion].
type State struct {
	Session      string            `json:"session"`
	Seq          uint64            `json:"seq"`
	Settings     Settings          `json:"settings,omitzero"`
	Config       schemas.RunConfig `json:"config,omitzero"` // of the newest run
	Messages     []Entry           `json:"messages,omitempty"`
	Prompts      []Input           `json:"prompts,omitempty"`
	Steering     []Input           `json:"steering,omitempty"`
	FollowUp     []Input           `json:"followUp,omitempty"`
	Run          *Run              `json:"run,omitempty"`
	Runs         int               `json:"runs,omitempty"`
	LastEnd      *schemas.AgentEnd `json:"lastEnd,omitempty"`
	ErrorMessage string            `json:"errorMessage,omitempty"`
	Usage        schemas.Usage     `json:"usage,omitzero"`
	Known        Known             `json:"taken,omitzero"` // the newest commands that are in the log
	Owed         []Owed            `json:"owed,omitempty"` // by accepted commands, in order
	Origin       *Origin           `json:"origin,omitempty"`
	Tree         Tree              `json:"tree,omitzero"`
	Name         string            `json:"name,omitempty"`   // of the session, for people
	Labels       map[string]string `json:"labels,omitempty"` // by the id of the entry
	Navigating   *Navigation       `json:"navigating,omitempty"`
	Compacting   *Compacting       `json:"compacting,omitempty"`
	Uncompacted  string            `json:"uncompacted,omitempty"` // the leaf at the last failed compaction
	Parent       *Parent           `json:"parent,omitempty"`      // set for a sub-agent
	Children     []Child           `json:"children,omitempty"`    // sub-agents without a result
}

// Settings are the choices of set_model and similar commands. Nil and empty members leave the choice to the runner.
type Settings struct {
	Model         *schemas.ModelRef     `json:"model,omitempty"`
	Fallbacks     []schemas.ModelRef    `json:"fallbacks,omitzero"` // nil leaves the choice to the runner
	ThinkingLevel schemas.ThinkingLevel `json:"thinkingLevel,omitempty"`
	SystemPrompt  *string               `json:"systemPrompt,omitempty"`
	ToolsSet      bool                  `json:"toolsSet,omitempty"`
	Tools         []string              `json:"tools,omitzero"` // nil with ToolsSet: all announced tools
	SteeringMode  schemas.QueueMode     `json:"steeringMode,omitempty"`
	FollowUpMode  schemas.QueueMode     `json:"followUpMode,omitempty"`
	ToolExecution schemas.ExecutionMode `json:"toolExecution,omitempty"`
	Profile       string                `json:"profile,omitempty"`
	Channel       string                `json:"channel,omitempty"` // the client the session belongs to
	ChannelOnly   bool                  `json:"channelOnly,omitempty"`
	Workspace     *string               `json:"workspace,omitempty"`
	MaxTokens     int64                 `json:"maxTokens,omitempty"` // limit of the session as a sub-agent; 0 is none
	MaxCost       float64               `json:"maxCost,omitempty"`   // the same, in US dollars
}

// Entry is a message of the path with its id in the session's tree.
type Entry struct {
	ID      string             `json:"id"`
	Message schemas.AnyMessage `json:"message"`
}

// Input is the content of a prompt, steer, follow_up or continue that waits or enters the transcript. A continue has no
// messages.
type Input struct {
	CommandID string              `json:"commandId"`
	Kind      schemas.CommandKind `json:"kind"`
	Messages  schemas.Messages    `json:"messages,omitempty"`

	TraceParent string `json:"traceparent,omitempty"`

	Expand   bool                  `json:"expand,omitempty"`   // the text may name a template or skill of the workspace
	Screened bool                  `json:"screened,omitempty"` // it was expanded and the hook input was asked
	Begin    *schemas.HookDecision `json:"begin,omitempty"`    // decision of before_agent_start about the run it starts
}

// Run is the run under way.
type Run struct {
	ID           string        `json:"id"`
	Command      string        `json:"command,omitempty"` // that started it
	TraceParent  string        `json:"traceparent,omitempty"`
	StartedAt    time.Time     `json:"startedAt"`
	SkipSteering bool          `json:"skipSteering,omitempty"`
	Unready      string        `json:"unready,omitempty"`  // why no model can be called
	Polled       bool          `json:"polled,omitempty"`   // the first turn's poll found an input
	Inject       []Input       `json:"inject,omitempty"`   // polled from a queue, not yet in the transcript
	Injected     []string      `json:"injected,omitempty"` // message ids of Inject[0] that are in the transcript
	Open         *Entry        `json:"open,omitempty"`     // announced by message_start; not a reply
	Turn         *Turn         `json:"turn,omitempty"`
	Turns        int           `json:"turns"`
	Last         *Outcome      `json:"last,omitempty"` // of the turn before, between turns
	Abort        *Abort        `json:"abort,omitempty"`
	New          []string      `json:"new,omitempty"` // ids of the messages the run added
	Failure      string        `json:"failure,omitempty"`
	Usage        schemas.Usage `json:"usage,omitzero"`
	Retrying     *Retrying     `json:"retrying,omitempty"`
	Fallbacks    int           `json:"fallbacks,omitempty"` // how many of Config.Fallbacks have been used
	Context      []Entry       `json:"context,omitempty"`   // the run's own transcript, after State.Messages was replaced
	Detached     bool          `json:"detached,omitempty"`
	Overflow     Overflow      `json:"overflow,omitempty"`
	Uncompacted  bool          `json:"uncompacted,omitempty"` // a compaction has failed and is not retried

	Warned   map[schemas.BudgetScope]bool `json:"warned,omitempty"`
	Children int                          `json:"children,omitempty"` // number of sub-agents begun
	Branches int                          `json:"branches,omitempty"` // number of copies requested
}

// Turn is the turn under way.
type Turn struct {
	ID        string                    `json:"id"`
	Streaming string                    `json:"streaming,omitempty"` // id of the reply that is being streamed
	ReplyID   string                    `json:"replyId,omitempty"`
	Reply     *schemas.AssistantMessage `json:"reply,omitempty"`
	Reason    schemas.TerminationReason `json:"reason,omitempty"` // why the reply was cut off
	Retryable bool                      `json:"retryable,omitempty"`
	Overflow  bool                      `json:"overflow,omitempty"` // the context was too long
	Calls     []Call                    `json:"calls,omitempty"`
}

// Call is a tool call of the turn.
type Call struct {
	ToolCall  schemas.ToolCall          `json:"toolCall"`
	Key       schemas.CallKey           `json:"key,omitempty"` // set by tool_execution_start
	StartSeq  uint64                    `json:"startSeq,omitempty"`
	Nonce     string                    `json:"nonce,omitempty"` // of its tool_execution_start
	StartedAt time.Time                 `json:"startedAt,omitzero"`
	Decision  *schemas.HookDecision     `json:"decision,omitempty"`
	Approval  *Approval                 `json:"approval,omitempty"`
	End       *schemas.ToolExecutionEnd `json:"end,omitempty"`
	EndedAt   time.Time                 `json:"endedAt,omitzero"`
	MessageID string                    `json:"messageId,omitempty"` // of its result, once that is in the transcript
	Subagent  string                    `json:"subagent,omitempty"`  // session that the call has begun
	Branch    int                       `json:"branch,omitempty"`    // number of the copy it requests in the run, from 1
}

// Outcome is what a finished turn leaves for the choice of the next step.
type Outcome struct {
	Failed     bool                      `json:"failed,omitempty"` // the reply was an error or aborted
	Reason     schemas.TerminationReason `json:"reason,omitempty"` // why, if not the stop reason
	Aborted    bool                      `json:"aborted,omitempty"`
	Continue   bool                      `json:"continue,omitempty"`   // tool results wait for the model
	Terminated bool                      `json:"terminated,omitempty"` // every result requested the end
	Error      string                    `json:"error,omitempty"`
	Retryable  bool                      `json:"retryable,omitempty"`
	Overflow   bool                      `json:"overflow,omitempty"` // the context was too long
	ReplyID    string                    `json:"replyId,omitempty"`
}

// Abort is a request to end the run.
type Abort struct {
	CommandID string                    `json:"commandId,omitempty"`
	Reason    schemas.TerminationReason `json:"reason"`
}

// Idle reports whether no run is under way.
func (s *State) Idle() bool { return s.Run == nil }

// Transcript returns the messages that a model call of the run gets, before any hook. The caller owns the slice.
func (s *State) Transcript() schemas.Messages {
	entries := s.Messages
	if s.Run != nil && s.Run.Detached {
		entries = s.Run.Context
	}
	messages := make(schemas.Messages, len(entries))
	for i, e := range entries {
		messages[i] = e.Message.Message
	}
	return messages
}

// Message returns the message with the given id, or nil. It searches from the newest.
func (s *State) Message(id string) schemas.Message {
	if s.Run != nil && s.Run.Detached {
		if m := find(s.Run.Context, id); m != nil {
			return m
		}
	}
	return find(s.Messages, id)
}

// MessagesByID returns the messages with these ids, in the order of ids, without those that the transcript lacks.
func (s *State) MessagesByID(ids []string) schemas.Messages {
	messages := make(schemas.Messages, 0, len(ids))
	for _, id := range ids {
		if m := s.Message(id); m != nil {
			messages = append(messages, m)
		}
	}
	return messages
}

func find(entries []Entry, id string) schemas.Message {
	for _, e := range slices.Backward(entries) {
		if e.ID == id {
			return e.Message.Message
		}
	}
	return nil
}

// PendingToolCalls returns the ids of the calls that have begun and not ended, sorted and without duplicates.
func (s *State) PendingToolCalls() []string {
	if s.Run == nil || s.Run.Turn == nil {
		return nil
	}
	var ids []string
	for _, c := range s.Run.Turn.Calls {
		if c.Key != "" && c.End == nil {
			ids = append(ids, c.ToolCall.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Queued reports whether steering or follow-ups wait.
func (s *State) Queued() bool { return len(s.Steering) > 0 || len(s.FollowUp) > 0 }

// Call returns the call of the turn under way with the given key, or nil.
func (s *State) Call(key schemas.CallKey) *Call {
	if s.Run == nil || s.Run.Turn == nil {
		return nil
	}
	for i := range s.Run.Turn.Calls {
		if c := &s.Run.Turn.Calls[i]; c.Key == key && key != "" {
			return c
		}
	}
	return nil
}

// Envelope returns the session, sequence and ids of the next event. For agent_start and turn_start the run or turn id
// is the one that the event begins: "r" or "t" and its sequence.
func (s *State) Envelope(data schemas.EventData) schemas.Event {
	e := schemas.Event{Session: s.Session, Seq: s.Seq + 1, Data: data}
	if s.Run != nil {
		e.RunID, e.CorrelationID = s.Run.ID, s.Run.Command
		if s.Run.Turn != nil {
			e.TurnID = s.Run.Turn.ID
		}
	}
	switch d := data.(type) {
	case *schemas.AgentStart:
		e.RunID, e.TurnID = fmt.Sprintf("r%d", e.Seq), ""
		if len(d.Inputs) > 0 {
			e.CorrelationID = d.Inputs[0]
		}
	case *schemas.TurnStart:
		e.TurnID = fmt.Sprintf("t%d", e.Seq)
	}
	return e
}

// MessageID returns the id of the message that the next event begins: "m" and its sequence.
func (s *State) MessageID() string { return fmt.Sprintf("m%d", s.Seq+1) }
