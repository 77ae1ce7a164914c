package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// HookName is a point of the loop at which a service can observe and change what happens next. The names are pi's.
type HookName string

// The hooks (docs/hooks.md).
const (
	HookInput            HookName = "input"              // an input, before it enters a run
	HookBeforeAgentStart HookName = "before_agent_start" // a run is about to begin
	HookContext          HookName = "context"            // the transcript, before the model gets it
	HookMessageEnd       HookName = "message_end"        // a message, before it is stored

	HookBeforeProviderRequest HookName = "before_provider_request" // a request, before it is sent to a vendor

	HookBeforeToolCall HookName = "beforeToolCall" // a call, before it is executed
	HookAfterToolCall  HookName = "afterToolCall"  // a result, before it is stored

	HookSessionBeforeCompact HookName = "session_before_compact" // a context is about to be summarized
	HookSessionBeforeTree    HookName = "session_before_tree"    // the leaf is about to be moved
	HookSessionBeforeFork    HookName = "session_before_fork"    // a session is about to begin as a copy from an entry
)

// HookNames lists the hooks in the order in which a run calls them.
func HookNames() []HookName {
	return []HookName{HookInput, HookBeforeAgentStart, HookContext, HookBeforeProviderRequest, HookMessageEnd,
		HookBeforeToolCall, HookAfterToolCall, HookSessionBeforeCompact, HookSessionBeforeTree, HookSessionBeforeFork}
}

// FailsClosed reports whether a call is refused if the hook's service gives no answer. At other hooks the operation
// then proceeds unchanged.
func (h HookName) FailsClosed() bool { return h == HookBeforeToolCall }

// DefaultHookTimeout is the longest wait for a service whose [HookRef] has no TimeoutMs.
const DefaultHookTimeout = 5 * time.Second

// HookRef is a service that is called at a hook. It listens at agent.hook.<hook>, or with Service, a subject token, at
// agent.hook.<hook>.<service>. TimeoutMs is the longest wait for its answer, in milliseconds; 0 is
// [DefaultHookTimeout].
type HookRef struct {
	Hook      HookName `json:"hook"`
	Service   string   `json:"service,omitempty"`
	TimeoutMs int64    `json:"timeoutMs,omitempty"`
}

// Timeout returns the longest wait for the answer.
func (r HookRef) Timeout() time.Duration {
	if r.TimeoutMs <= 0 {
		return DefaultHookTimeout
	}
	return Milliseconds(r.TimeoutMs)
}

// Name returns the name of the service in logs: its own, or that of the hook.
func (r HookRef) Name() string {
	if r.Service != "" {
		return r.Service
	}
	return string(r.Hook)
}

// ParseHookRef parses HOOK, HOOK.SERVICE or either with =DURATION appended, such as beforeToolCall.policy=2s.
func ParseHookRef(text string) (r HookRef, err error) {
	name, limit, limited := strings.Cut(text, "=")
	hook, service, named := strings.Cut(name, ".")
	r = HookRef{Hook: HookName(hook), Service: service}
	if !knownHook(r.Hook) {
		return r, fmt.Errorf("hook %q is none of %v", hook, HookNames())
	}
	if named {
		if err := CheckToken("hook service", service); err != nil {
			return r, err
		}
	}
	if limited {
		d, err := time.ParseDuration(limit)
		if err != nil || d < time.Millisecond {
			return r, fmt.Errorf("hook %s: time limit %q is no duration such as 2s", name, limit)
		}
		r.TimeoutMs = d.Milliseconds()
	}
	return r, nil
}

func knownHook(h HookName) bool {
	for _, name := range HookNames() {
		if h == name {
			return true
		}
	}
	return false
}

// HookRequest is the request to a hook's service. Its members depend on the hook:
//
//	input               CommandID, Messages: those of the input
//	before_agent_start  CommandID, Messages: those of the first input; SystemPrompt
//	context             Messages: the transcript as the model will get it
//	message_end         Message
//
//	before_provider_request  Payload: the body of the request to the vendor, without the API key
//
//	beforeToolCall      Call, ToolCallID, ToolName, Args: the validated arguments
//	afterToolCall       the same, and Result and IsError
//
//	session_before_compact  Compaction; Messages: those to summarize
//	session_before_tree     CommandID, Navigation; Messages: those that are left behind
//	session_before_fork     CommandID, Fork; Session is the new one
//
// After a crash a service may get the same request again.
type HookRequest struct {
	Hook         HookName        `json:"hook"`
	Session      string          `json:"session"`
	RunID        string          `json:"runId,omitempty"`
	TurnID       string          `json:"turnId,omitempty"`
	CommandID    string          `json:"commandId,omitempty"`
	Call         CallKey         `json:"call,omitempty"`
	ToolCallID   string          `json:"toolCallId,omitempty"`
	ToolName     string          `json:"toolName,omitempty"`
	Args         json.RawMessage `json:"args,omitempty"`
	Result       *ToolResult     `json:"result,omitempty"`
	IsError      bool            `json:"isError,omitempty"`
	Message      *AnyMessage     `json:"message,omitempty"`
	Messages     Messages        `json:"messages,omitempty"`
	SystemPrompt string          `json:"systemPrompt,omitempty"`
	Payload      json.RawMessage `json:"payload,omitempty"`

	Compaction *CompactionStart `json:"compaction,omitempty"`
	Navigation *Navigate        `json:"navigation,omitempty"`
	Fork       *Branch          `json:"fork,omitempty"`
}

// HookAnswer is the answer of a hook's service; {} changes nothing. By names who or what decided, for the log, and
// Reason is why. The other members belong to hooks:
//
//	input               Messages in place of the input's; Handled: the service has processed it, no run receives it
//	before_agent_start  Messages, added to those of the first input; SystemPrompt in place of the run's
//	context             Messages in place of the transcript, for this one model call
//	message_end         Message in its place, of the same role
//
//	before_provider_request  Payload in place of the body, which only the vendor validates
//
//	beforeToolCall      Block refuses the call; Ask requires an approval, which may take TimeoutMs, or, if that is 0,
//	                    as long as the policy allows; Args in place of the arguments, which are not validated again
//	afterToolCall       Content, Details, IsError and Terminate in place of the result's
//
//	session_before_compact  Cancel; or Compaction in place of a model's summary
//	session_before_tree     Cancel; or Summary in place of a model's, CustomInstructions, ReplaceInstructions and
//	                        Label in place of the command's
//	session_before_fork     Cancel
type HookAnswer struct {
	By           string          `json:"by,omitempty"`
	Reason       string          `json:"reason,omitempty"`
	Handled      bool            `json:"handled,omitempty"`
	Messages     Messages        `json:"messages,omitzero"`
	Message      *AnyMessage     `json:"message,omitempty"`
	SystemPrompt *string         `json:"systemPrompt,omitempty"`
	Block        bool            `json:"block,omitempty"`
	Ask          bool            `json:"ask,omitempty"`
	TimeoutMs    int64           `json:"timeoutMs,omitempty"`
	Args         json.RawMessage `json:"args,omitempty"`
	Content      *Contents       `json:"content,omitempty"`
	Details      json.RawMessage `json:"details,omitempty"`
	IsError      *bool           `json:"isError,omitempty"`
	Terminate    *bool           `json:"terminate,omitempty"`
	Payload      json.RawMessage `json:"payload,omitempty"`

	Cancel              bool                `json:"cancel,omitempty"`
	Compaction          *SuppliedCompaction `json:"compaction,omitempty"`
	Summary             string              `json:"summary,omitempty"`
	CustomInstructions  *string             `json:"customInstructions,omitempty"`
	ReplaceInstructions *bool               `json:"replaceInstructions,omitempty"`
	Label               *string             `json:"label,omitempty"`
}

// Size estimates the memory of an answer: it counts each text that may be large.
func (a HookAnswer) Size() int {
	n := a.Messages.Size() + len(a.Args) + len(a.Details) + len(a.Payload) + len(a.Reason) + len(a.Summary)
	if a.Message != nil {
		n += Messages{a.Message.Message}.Size()
	}
	if a.Content != nil {
		n += Messages{&ToolResultMessage{Content: *a.Content}}.Size()
	}
	if a.Compaction != nil {
		n += len(a.Compaction.Summary) + len(a.Compaction.Details)
	}
	for _, text := range []*string{a.SystemPrompt, a.CustomInstructions, a.Label} {
		if text != nil {
			n += len(*text)
		}
	}
	return n
}

// HookFailure is a service that was called and gave no valid answer in time.
type HookFailure struct {
	Service string `json:"service"`
	Error   string `json:"error"`
}

// ParseHookRequest validates and decodes a request. An error is a [*ValidationError] or the reason why it is not JSON.
func ParseHookRequest(payload []byte) (r HookRequest, err error) {
	if err := validate("hook request", SchemaName{"hooks", "hook_request"}, payload); err != nil {
		return r, err
	}
	err = json.Unmarshal(payload, &r)
	return r, err
}

// errNoHookAnswer is returned for an empty payload. A shell command that fails answers so, and a failure must not allow
// a call.
var errNoHookAnswer = errors.New("the answer is empty: a service that changes nothing answers {}")

// ParseHookAnswer validates and decodes an answer. An error is a [*ValidationError] or the reason why it is not JSON.
func ParseHookAnswer(payload []byte) (a HookAnswer, err error) {
	if len(bytes.TrimSpace(payload)) == 0 {
		return a, errNoHookAnswer
	}
	if err := validate("hook answer", SchemaName{"hooks", "hook_answer"}, payload); err != nil {
		return a, err
	}
	err = json.Unmarshal(payload, &a)
	return a, err
}
