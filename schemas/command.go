package schemas

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// CommandKind is the last token of a command's subject.
type CommandKind string

// The commands people and programs send.
const (
	CommandPrompt           CommandKind = "prompt"
	CommandSteer            CommandKind = "steer"
	CommandFollowUp         CommandKind = "follow_up"
	CommandAbort            CommandKind = "abort"
	CommandContinue         CommandKind = "continue"
	CommandClearQueue       CommandKind = "clear_queue"
	CommandCancelInput      CommandKind = "cancel_input"
	CommandSetModel         CommandKind = "set_model"
	CommandSetThinkingLevel CommandKind = "set_thinking_level"
	CommandSetTools         CommandKind = "set_tools"
	CommandSetSystemPrompt  CommandKind = "set_system_prompt"
	CommandSetModes         CommandKind = "set_modes"
	CommandSetWorkspace     CommandKind = "set_workspace"
	CommandSetProfile       CommandKind = "set_profile"
	CommandBranch           CommandKind = "branch"
	CommandApprove          CommandKind = "approve"
	CommandDeny             CommandKind = "deny"
	CommandNavigate         CommandKind = "navigate"
	CommandLabel            CommandKind = "label"
	CommandName             CommandKind = "name"
	CommandCustom           CommandKind = "custom"
	CommandCustomMessage    CommandKind = "custom_message"
	CommandCompact          CommandKind = "compact"
)

// The commands of the service itself: answers of workers and due timers. They take the same way as the others so that
// a session has one inbox and one order.
const (
	CommandToolResult CommandKind = "tool_result"
	CommandTimer      CommandKind = "timer"
)

// The commands between a session and its sub-agents, which runners send.
const (
	CommandSubagentPrompt CommandKind = "subagent_prompt"
	CommandSubagentAbort  CommandKind = "subagent_abort"
	CommandSubagentResult CommandKind = "subagent_result"
)

// Command is one message of a session's inbox. The client chooses ID; if it does not, ID is derived from the place
// where the message is stored, so that it is the same in every delivery. TraceParent carries the W3C trace context.
type Command struct {
	ID          string
	Session     string
	Source      string
	Time        time.Time
	TraceParent string
	Data        CommandData
	// Anonymous is set by a receiver if nobody can ask what became of the command: its sender has given it no id, and
	// waits for no reply.
	Anonymous bool `json:"-"`
	// The place of the message in the inbox, which a receiver sets; zero if the command did not come from one.
	InboxPosition `json:"-"`
}

// InboxPosition is where the message of a command is stored: StreamSeq is its sequence in the stream AGENT_CMD, from 1,
// and Inbox the name of that stream, which distinguishes it from others of that name, elsewhere or before. In an event
// Inbox is empty if it is the same as in the log's event before that has a StreamSeq.
type InboxPosition struct {
	Inbox     string `json:"inbox,omitempty"`
	StreamSeq uint64 `json:"streamSeq,omitempty"`
}

// CommandData is the payload of a command: a pointer to one of the types of this file, approval.go,
// tree.go, compaction.go and subagent.go.
type CommandData interface {
	CommandKind() CommandKind
}

// WhenBusy is what a prompt does if a run is under way.
type WhenBusy string

// The choices of [WhenBusy]; the zero value counts as [BusyQueue].
const (
	BusyQueue     WhenBusy = "queue"     // start a run of its own after this one
	BusySteer     WhenBusy = "steer"     // become a steer
	BusyFollowUp  WhenBusy = "follow_up" // become a follow-up
	BusyInterrupt WhenBusy = "interrupt" // abort this run, then start
	BusyReject    WhenBusy = "reject"    // be refused
)

// Input is the content of a prompt, steer or follow_up: text with images, or messages of any role. If Expand is set, a
// text that begins with "/name" or "/skill:name" is replaced by the prompt template or skill of that name in the
// session's workspace ([Resources]); a text that names none stays as it is.
type Input struct {
	Text     string   `json:"text,omitempty"`
	Images   []Image  `json:"images,omitempty"`
	Messages Messages `json:"messages,omitempty"`
	Expand   bool     `json:"expand,omitempty"`
}

// AsMessages returns the messages of the input: Messages, or one user message with the text, the images and the given
// time.
func (in Input) AsMessages(at time.Time) Messages {
	if len(in.Messages) > 0 {
		return in.Messages
	}
	content := Contents{Text{Text: in.Text}}
	for _, image := range in.Images {
		content = append(content, image)
	}
	return Messages{&UserMessage{Content: content, Timestamp: at.UnixMilli()}}
}

// Prompt starts a run.
type Prompt struct {
	Input
	WhenBusy WhenBusy `json:"whenBusy,omitempty"`
	Binding
}

// Binding binds a session to a client from its next run on. The session gets the tools that are announced as a
// channel's for the workspace Channel, besides its own; if ChannelOnly is set, it has only those. Without a Channel the
// session keeps its binding.
type Binding struct {
	Channel     string `json:"channel,omitempty"`
	ChannelOnly bool   `json:"channelOnly,omitempty"`
}

// Steer reaches the model before its next call. In a session at rest it starts a run.
type Steer struct{ Input }

// FollowUp reaches the model when the run would otherwise end. In a session at rest it starts a run.
type FollowUp struct{ Input }

// Abort stops the current run. ClearQueue also withdraws all queued inputs.
type Abort struct {
	Reason     string `json:"reason,omitempty"`
	ClearQueue bool   `json:"clearQueue,omitempty"`
}

// Continue starts a run from the transcript as it is, or, if that ends with a reply, from the queued inputs.
type Continue struct{ Binding }

// ClearQueue withdraws the inputs of a queue: "steering", "follow_up" or "prompts", or of all queues if Queue is empty.
type ClearQueue struct {
	Queue string `json:"queue,omitempty"`
}

// CancelInput withdraws one queued input by its command's id.
type CancelInput struct {
	InputID string `json:"inputId"`
}

// SetModel chooses the model from the next run on, and the models to fall back to if it fails and retries do not help.
// Nil Fallbacks leave the fallbacks as they are; an empty list removes them.
type SetModel struct {
	Model     ModelRef   `json:"model"`
	Fallbacks []ModelRef `json:"fallbacks,omitzero"`
}

// SetThinkingLevel chooses the thinking level from the next run on.
type SetThinkingLevel struct {
	ThinkingLevel ThinkingLevel `json:"thinkingLevel"`
}

// SetTools chooses the session's tools by name from the next run on. Null selects all announced tools, an empty list
// none.
type SetTools struct {
	Tools []string `json:"tools"`
}

// SetSystemPrompt chooses the system prompt from the next run on.
type SetSystemPrompt struct {
	SystemPrompt string `json:"systemPrompt"`
}

// SetModes chooses how queues are drained, from the next poll on, and how tools are executed, from the next run on.
// Empty members leave their settings as they are.
type SetModes struct {
	SteeringMode  QueueMode     `json:"steeringMode,omitempty"`
	FollowUpMode  QueueMode     `json:"followUpMode,omitempty"`
	ToolExecution ExecutionMode `json:"toolExecution,omitempty"`
}

// SetWorkspace chooses, from the next run on, the workspace whose workers execute the session's tool calls. Empty
// selects none, whatever the runner's default is.
type SetWorkspace struct {
	Workspace string `json:"workspace"`
}

// Timer is the command of a timer that is due, which the session's log has set. RunID is the run that the timer belongs
// to; if another run has begun since, the timer changes nothing.
type Timer struct {
	Name  string `json:"name"`
	RunID string `json:"runId,omitempty"`
	Call  string `json:"call,omitempty"`
}

// The names of timers.
const (
	TimerRunDeadline = "run_deadline" // ends a run with [TimeoutRun]
	TimerRetry       = "retry"        // the wait of an [AutoRetryStart] is over
	TimerApproval    = "approval"     // the wait of an [ApprovalRequested] is over; its name goes on with _ and the call
	TimerSubagents   = "subagents"    // it is time to see whether the sub-agents waited for will answer
	TimerCheck       = "check"        // the session is silent: it is time to see what will not be answered
)

// CommandKind returns "prompt".
func (*Prompt) CommandKind() CommandKind { return CommandPrompt }

// CommandKind returns "steer".
func (*Steer) CommandKind() CommandKind { return CommandSteer }

// CommandKind returns "follow_up".
func (*FollowUp) CommandKind() CommandKind { return CommandFollowUp }

// CommandKind returns "abort".
func (*Abort) CommandKind() CommandKind { return CommandAbort }

// CommandKind returns "continue".
func (*Continue) CommandKind() CommandKind { return CommandContinue }

// CommandKind returns "clear_queue".
func (*ClearQueue) CommandKind() CommandKind { return CommandClearQueue }

// CommandKind returns "cancel_input".
func (*CancelInput) CommandKind() CommandKind { return CommandCancelInput }

// CommandKind returns "set_model".
func (*SetModel) CommandKind() CommandKind { return CommandSetModel }

// CommandKind returns "set_thinking_level".
func (*SetThinkingLevel) CommandKind() CommandKind { return CommandSetThinkingLevel }

// CommandKind returns "set_tools".
func (*SetTools) CommandKind() CommandKind { return CommandSetTools }

// CommandKind returns "set_system_prompt".
func (*SetSystemPrompt) CommandKind() CommandKind { return CommandSetSystemPrompt }

// CommandKind returns "set_modes".
func (*SetModes) CommandKind() CommandKind { return CommandSetModes }

// CommandKind returns "set_workspace".
func (*SetWorkspace) CommandKind() CommandKind { return CommandSetWorkspace }

// CommandKind returns "tool_result".
func (*ToolResponse) CommandKind() CommandKind { return CommandToolResult }

// CommandKind returns "timer".
func (*Timer) CommandKind() CommandKind { return CommandTimer }

// commandTypes makes an empty payload of each kind.
var commandTypes = map[CommandKind]func() CommandData{
	CommandPrompt:           func() CommandData { return new(Prompt) },
	CommandSteer:            func() CommandData { return new(Steer) },
	CommandFollowUp:         func() CommandData { return new(FollowUp) },
	CommandAbort:            func() CommandData { return new(Abort) },
	CommandContinue:         func() CommandData { return new(Continue) },
	CommandClearQueue:       func() CommandData { return new(ClearQueue) },
	CommandCancelInput:      func() CommandData { return new(CancelInput) },
	CommandSetModel:         func() CommandData { return new(SetModel) },
	CommandSetThinkingLevel: func() CommandData { return new(SetThinkingLevel) },
	CommandSetTools:         func() CommandData { return new(SetTools) },
	CommandSetSystemPrompt:  func() CommandData { return new(SetSystemPrompt) },
	CommandSetModes:         func() CommandData { return new(SetModes) },
	CommandSetProfile:       func() CommandData { return new(SetProfile) },
	CommandBranch:           func() CommandData { return new(Branch) },
	CommandSetWorkspace:     func() CommandData { return new(SetWorkspace) },
	CommandApprove:          func() CommandData { return new(Approve) },
	CommandDeny:             func() CommandData { return new(Deny) },
	CommandNavigate:         func() CommandData { return new(Navigate) },
	CommandLabel:            func() CommandData { return new(Label) },
	CommandName:             func() CommandData { return new(Name) },
	CommandCustom:           func() CommandData { return new(Custom) },
	CommandCustomMessage:    func() CommandData { return new(AddMessage) },
	CommandCompact:          func() CommandData { return new(Compact) },
	CommandToolResult:       func() CommandData { return new(ToolResponse) },
	CommandTimer:            func() CommandData { return new(Timer) },
	CommandSubagentPrompt:   func() CommandData { return new(SubagentPrompt) },
	CommandSubagentAbort:    func() CommandData { return new(SubagentAbort) },
	CommandSubagentResult:   func() CommandData { return new(SubagentResult) },
}

// KnownCommand reports whether this package knows the kind.
func KnownCommand(kind CommandKind) bool { return commandTypes[kind] != nil }

// KnownMember reports whether commands of this kind have a member with this name in their schema. Every kind has "id".
func KnownMember(kind CommandKind, name string) bool { return commandMembers[kind][name] }

// commandMembers are the members in the schemas of the commands.
var commandMembers = func() map[CommandKind]map[string]bool {
	all := make(map[CommandKind]map[string]bool, len(commandTypes))
	for kind, empty := range commandTypes {
		members := map[string]bool{"id": true}
		addMembers(members, reflect.TypeOf(empty()).Elem())
		all[kind] = members
	}
	return all
}()

func addMembers(members map[string]bool, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			addMembers(members, f.Type)
		case name != "-":
			members[cmp.Or(name, f.Name)] = true
		}
	}
}

// DecodeCommandData decodes the payload of a command that has been validated (see [ParseCommand]). An unknown kind
// gives an [UnknownTypeError].
func DecodeCommandData(kind CommandKind, data []byte) (CommandData, error) {
	make := commandTypes[kind]
	if make == nil {
		return nil, &UnknownTypeError{What: "command", Type: string(kind)}
	}
	v := make()
	if err := json.Unmarshal(data, v); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	return v, nil
}
