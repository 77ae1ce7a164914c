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

// Command is one message of a session's inbox. ID is the client's, or made from where the message is stored, so that
// every delivery of it has the same. TraceParent carries the W3C trace context.
type Command struct {
	ID          string
	Session     string
	Source      string
	Time        time.Time
	TraceParent string
	Data        CommandData
}

// CommandData is the payload of a command: a pointer to one of the types of this file, approval.go,
// tree.go, compaction.go and subagent.go.
type CommandData interface {
	CommandKind() CommandKind
}

// WhenBusy says what a prompt does when a run is under way.
type WhenBusy string

// The choices of [WhenBusy]; the zero value counts as [BusyQueue].
const (
	BusyQueue     WhenBusy = "queue"     // start a run of its own after this one
	BusySteer     WhenBusy = "steer"     // become a steer
	BusyFollowUp  WhenBusy = "follow_up" // become a follow-up
	BusyInterrupt WhenBusy = "interrupt" // abort this run, then start
	BusyReject    WhenBusy = "reject"    // be refused
)

// Input is what a prompt, steer or follow_up brings: text with images, or messages of any role. Expand has a text that
// begins with "/name" or "/skill:name" replaced by the prompt template or skill of that name of the session's workspace
// ([Resources]); a text that names none stays as it is.
type Input struct {
	Text     string   `json:"text,omitempty"`
	Images   []Image  `json:"images,omitempty"`
	Messages Messages `json:"messages,omitempty"`
	Expand   bool     `json:"expand,omitempty"`
}

// AsMessages returns the messages the input stands for: its messages, or one user message of the text and the images
// with the given time.
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

// Binding binds a session to a client from its next run on: the tools that are announced for a workspace named Channel,
// as those of a channel, come on top of the session's own, or, with ChannelOnly, are all that it has. Without a Channel
// the session stays
// bound as it is.
type Binding struct {
	Channel     string `json:"channel,omitempty"`
	ChannelOnly bool   `json:"channelOnly,omitempty"`
}

// Steer reaches the model before its next call; a session at rest starts a run with it.
type Steer struct{ Input }

// FollowUp reaches the model when the run would end; a session at rest starts a run with it.
type FollowUp struct{ Input }

// Abort ends the run under way. ClearQueue also withdraws everything queued.
type Abort struct {
	Reason     string `json:"reason,omitempty"`
	ClearQueue bool   `json:"clearQueue,omitempty"`
}

// Continue starts a run from the transcript as it is, or, where that ends with a reply, from what is queued.
type Continue struct{ Binding }

// ClearQueue withdraws what is queued: "steering", "follow_up", "prompts", or all of them when empty.
type ClearQueue struct {
	Queue string `json:"queue,omitempty"`
}

// CancelInput withdraws one queued input by its command's id.
type CancelInput struct {
	InputID string `json:"inputId"`
}

// SetModel chooses the model from the next run on, and the models to fall back to when it fails for good. Without
// fallbacks those of before stay; an empty list takes them away.
type SetModel struct {
	Model     ModelRef   `json:"model"`
	Fallbacks []ModelRef `json:"fallbacks,omitzero"`
}

// SetThinkingLevel chooses the thinking level from the next run on.
type SetThinkingLevel struct {
	ThinkingLevel ThinkingLevel `json:"thinkingLevel"`
}

// SetTools chooses the session's tools by name from the next run on. Null means every tool announced, an empty list
// none.
type SetTools struct {
	Tools []string `json:"tools"`
}

// SetSystemPrompt chooses the system prompt from the next run on.
type SetSystemPrompt struct {
	SystemPrompt string `json:"systemPrompt"`
}

// SetModes chooses how queues are drained, from the next poll on, and how tools are executed, from the next run on. An
// empty member is left as it is.
type SetModes struct {
	SteeringMode  QueueMode     `json:"steeringMode,omitempty"`
	FollowUpMode  QueueMode     `json:"followUpMode,omitempty"`
	ToolExecution ExecutionMode `json:"toolExecution,omitempty"`
}

// SetWorkspace chooses, from the next run on, the workspace whose workers the session's tool calls are for. Empty is
// none, whatever the runner's default.
type SetWorkspace struct {
	Workspace string `json:"workspace"`
}

// Timer says that a timer that the log has set is due. RunID is the run it belongs to; a timer of
// another run is late and changes nothing.
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

// KnownCommand reports whether kind is one of this package's.
func KnownCommand(kind CommandKind) bool { return commandTypes[kind] != nil }

// KnownMember reports whether the JSON of a command of this kind may have a member of that name that means something.
// "id" is one of every kind.
func KnownMember(kind CommandKind, name string) bool { return commandMembers[kind][name] }

// commandMembers are the members that the schemas of the commands name.
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

// DecodeCommandData reads the payload of a command that has been validated already (see [ParseCommand]). An unknown
// kind gives an [UnknownTypeError].
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
