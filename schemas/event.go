package schemas

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// EventType is the name of a kind of event.
type EventType string

// The ten events of the agent, which are pi's. The two updates are only sent live and are never in the log.
const (
	EventAgentStart          EventType = "agent_start"
	EventAgentEnd            EventType = "agent_end"
	EventTurnStart           EventType = "turn_start"
	EventTurnEnd             EventType = "turn_end"
	EventMessageStart        EventType = "message_start"
	EventMessageUpdate       EventType = "message_update"
	EventMessageEnd          EventType = "message_end"
	EventToolExecutionStart  EventType = "tool_execution_start"
	EventToolExecutionUpdate EventType = "tool_execution_update"
	EventToolExecutionEnd    EventType = "tool_execution_end"
)

// The events of the service.
const (
	EventCommandAccepted    EventType = "command_accepted"
	EventCommandApplied     EventType = "command_applied"
	EventCommandRejected    EventType = "command_rejected"
	EventCommandSuperseded  EventType = "command_superseded"
	EventCommandWithdrawn   EventType = "command_withdrawn"
	EventRunResumed         EventType = "run_resumed"
	EventQueueUpdate        EventType = "queue_update"
	EventHookDecision       EventType = "hook_decision"
	EventTranscriptReplaced EventType = "transcript_replaced"
	EventError              EventType = "error"
	EventAutoRetryStart     EventType = "auto_retry_start"
	EventAutoRetryEnd       EventType = "auto_retry_end"
	EventModelFallback      EventType = "model_fallback"
	EventBudgetWarning      EventType = "budget_warning"
	EventApprovalRequested  EventType = "approval_requested"
	EventApprovalResolved   EventType = "approval_resolved"
	EventSessionBranched    EventType = "session_branched"
	EventLeaf               EventType = "leaf"
	EventLabel              EventType = "label"
	EventSessionInfo        EventType = "session_info"
	EventCustom             EventType = "custom"
	EventCustomMessage      EventType = "custom_message"
	EventCompactionStart    EventType = "compaction_start"
	EventCompactionEnd      EventType = "compaction_end"
	EventSummaryEnd         EventType = "summary_end"
	EventBranchSummaryStart EventType = "branch_summary_start"
	EventBranchSummaryEnd   EventType = "branch_summary_end"
	EventSubagentStart      EventType = "subagent_start"
	EventSubagentAbort      EventType = "subagent_abort"
	EventSubagentEnd        EventType = "subagent_end"
	EventSubagentReport     EventType = "subagent_report"
)

// Event is one entry of a session's log. Seq counts from 1 without a gap. CausationID is the command that caused the
// event, CorrelationID the command that started the run. PrevHash is the [Hash] of the message before the one that has
// the event; it is empty for the first. Source is the URI of the runner that wrote it.
type Event struct {
	Session       string
	Seq           uint64
	Time          time.Time
	Source        string
	RunID         string
	TurnID        string
	CorrelationID string
	CausationID   string
	TraceParent   string
	PrevHash      string
	Data          EventData
}

// EventData is the payload of an event: a pointer to one of the types of the event_*.go files, approval.go, branch.go,
// tree.go, compaction.go and subagent.go.
type EventData interface {
	EventType() EventType
}

// Type returns the type of the event's payload.
func (e Event) Type() EventType { return e.Data.EventType() }

// ID returns <session>/<seq>, the id of the CloudEvent.
func (e Event) ID() string { return e.Session + "/" + strconv.FormatUint(e.Seq, 10) }

var eventTypes = map[EventType]func() EventData{
	EventAgentStart:         func() EventData { return new(AgentStart) },
	EventAgentEnd:           func() EventData { return new(AgentEnd) },
	EventTurnStart:          func() EventData { return new(TurnStart) },
	EventTurnEnd:            func() EventData { return new(TurnEnd) },
	EventMessageStart:       func() EventData { return new(MessageStart) },
	EventMessageEnd:         func() EventData { return new(MessageEnd) },
	EventToolExecutionStart: func() EventData { return new(ToolExecutionStart) },
	EventToolExecutionEnd:   func() EventData { return new(ToolExecutionEnd) },
	EventCommandAccepted:    func() EventData { return new(CommandAccepted) },
	EventCommandApplied:     func() EventData { return new(CommandApplied) },
	EventCommandRejected:    func() EventData { return new(CommandRejected) },
	EventCommandSuperseded:  func() EventData { return new(CommandSuperseded) },
	EventCommandWithdrawn:   func() EventData { return new(CommandWithdrawn) },
	EventRunResumed:         func() EventData { return new(RunResumed) },
	EventQueueUpdate:        func() EventData { return new(QueueUpdate) },
	EventHookDecision:       func() EventData { return new(HookDecision) },
	EventTranscriptReplaced: func() EventData { return new(TranscriptReplaced) },
	EventError:              func() EventData { return new(ErrorEvent) },
	EventAutoRetryStart:     func() EventData { return new(AutoRetryStart) },
	EventAutoRetryEnd:       func() EventData { return new(AutoRetryEnd) },
	EventModelFallback:      func() EventData { return new(ModelFallback) },
	EventBudgetWarning:      func() EventData { return new(BudgetWarning) },
	EventApprovalRequested:  func() EventData { return new(ApprovalRequested) },
	EventApprovalResolved:   func() EventData { return new(ApprovalResolved) },
	EventSessionBranched:    func() EventData { return new(SessionBranched) },
	EventLeaf:               func() EventData { return new(Leaf) },
	EventLabel:              func() EventData { return new(Label) },
	EventSessionInfo:        func() EventData { return new(Name) },
	EventCustom:             func() EventData { return new(Custom) },
	EventCustomMessage:      func() EventData { return new(AddMessage) },
	EventCompactionStart:    func() EventData { return new(CompactionStart) },
	EventCompactionEnd:      func() EventData { return new(CompactionEnd) },
	EventSummaryEnd:         func() EventData { return new(SummaryEnd) },
	EventBranchSummaryStart: func() EventData { return new(BranchSummaryStart) },
	EventBranchSummaryEnd:   func() EventData { return new(BranchSummaryEnd) },
	EventSubagentStart:      func() EventData { return new(SubagentStart) },
	EventSubagentAbort:      func() EventData { return new(SubagentAborted) },
	EventSubagentEnd:        func() EventData { return new(SubagentEnd) },
	EventSubagentReport:     func() EventData { return new(SubagentReport) },
}

// DurableEventTypes lists the types a log may hold, in no order.
func DurableEventTypes() []EventType {
	types := make([]EventType, 0, len(eventTypes))
	for t := range eventTypes {
		types = append(types, t)
	}
	return types
}

// DecodeEventData decodes the payload of an event of the given type. An unknown type gives an [UnknownTypeError]. The
// Message of a *[MessageEnd] and of a *[SummaryEnd] is never nil.
func DecodeEventData(t EventType, data []byte) (EventData, error) {
	make := eventTypes[t]
	if make == nil {
		return nil, &UnknownTypeError{What: "event", Type: string(t)}
	}
	v := make()
	if err := json.Unmarshal(data, v); err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	if lacksMessage(v) {
		return nil, fmt.Errorf("%s: no message", t)
	}
	return v, nil
}

// lacksMessage reports whether a member is missing that readers need as a message of any role.
func lacksMessage(v EventData) bool {
	switch v := v.(type) {
	case *MessageEnd:
		return v.Message.Message == nil
	case *SummaryEnd:
		return v.Message.Message == nil
	case *Leaf:
		return slices.ContainsFunc(v.Entries, func(e TreeMessage) bool { return e.Message.Message == nil })
	}
	return false
}
