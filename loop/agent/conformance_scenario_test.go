package agent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

// A scenario says what happens around an agent: what it is given, what the model streams, how tools and hooks behave,
// what a user does meanwhile. A pointer or a nil slice or map stands for a member that is absent, where that matters.
type scenario struct {
	Name          string                `json:"name"`
	Why           string                `json:"why"`
	Level         string                `json:"level"`
	Model         *schemas.ModelRef     `json:"model"`
	SystemPrompt  string                `json:"systemPrompt"`
	Messages      schemas.Messages      `json:"messages"`
	Tools         []scriptedTool        `json:"tools"`
	InitialTools  *[]string             `json:"initialTools"`
	ToolExecution schemas.ExecutionMode `json:"toolExecution"`
	SteeringMode  schemas.QueueMode     `json:"steeringMode"`
	FollowUpMode  schemas.QueueMode     `json:"followUpMode"`
	ThinkingLevel schemas.ThinkingLevel `json:"thinkingLevel"`
	SessionID     string                `json:"sessionId"`
	APIKey        string                `json:"apiKey"`
	Aborted       bool                  `json:"aborted"`
	Listeners     []string              `json:"listeners"`
	Hooks         hookScripts           `json:"hooks"`
	LLM           []response            `json:"llm"`
	ToolCalls     map[string][]step     `json:"toolCalls"`
	Do            []action              `json:"do"`
	Inject        []rule                `json:"inject"`
}

// A pattern describes an event, or with Abort the abort signal of the run.
type pattern struct {
	Type       schemas.EventType `json:"type"`
	ToolCallID string            `json:"toolCallId"`
	Role       schemas.Role      `json:"role"`
	Nth        int               `json:"nth"`
	Every      bool              `json:"every"`
	Abort      bool              `json:"abort"`
}

// matches leaves out how often the pattern has to match.
func (p pattern) matches(e tracedEvent) bool {
	return p.Type == e.typ && (p.ToolCallID == "" || p.ToolCallID == e.callID) && (p.Role == "" || p.Role == e.role)
}

// nth is which match counts, from 1.
func (p pattern) nth() int { return max(p.Nth, 1) }

func (p pattern) String() string {
	if p.Abort {
		return "abort"
	}
	return fmt.Sprintf("%s toolCallId=%q role=%q nth=%d", p.Type, p.ToolCallID, p.Role, p.nth())
}

type scriptedTool struct {
	Name             string                `json:"name"`
	Parameters       json.RawMessage       `json:"parameters"`
	ExecutionMode    schemas.ExecutionMode `json:"executionMode"`
	PrepareArguments []prepareStep         `json:"prepareArguments"`
}

// A step is one thing a tool call does; one member is set.
type step struct {
	Update *schemas.ToolResult `json:"update"`
	Wait   *pattern            `json:"wait"`
	Return *schemas.ToolResult `json:"return"`
	Throw  *string             `json:"throw"`
}

// A response is one reply of the model.
type response struct {
	Events  []streamStep              `json:"events"`
	Message *schemas.AssistantMessage `json:"message"`
	Throw   *string                   `json:"throw"`
}

// A streamStep is an event of the model's stream or, with one of the other members, a pseudo event.
type streamStep struct {
	Event schemas.StreamEvent
	Wait  *pattern
	End   bool
	Throw *string
}

func (s *streamStep) UnmarshalJSON(data []byte) error {
	var pseudo struct {
		Wait  *pattern `json:"wait"`
		End   bool     `json:"end"`
		Throw *string  `json:"throw"`
	}
	if err := json.Unmarshal(data, &pseudo); err != nil {
		return err
	}
	*s = streamStep{Wait: pseudo.Wait, End: pseudo.End, Throw: pseudo.Throw}
	if s.Wait != nil || s.End || s.Throw != nil {
		return nil
	}
	return json.Unmarshal(data, &s.Event)
}

type hookScripts struct {
	BeforeToolCall      map[string]beforeScript   `json:"beforeToolCall"`
	AfterToolCall       map[string]afterScript    `json:"afterToolCall"`
	TransformContext    []transformStep           `json:"transformContext"`
	ConvertToLLM        *convertScript            `json:"convertToLlm"`
	ShouldStopAfterTurn answers[bool]             `json:"shouldStopAfterTurn"`
	GetAPIKey           answers[string]           `json:"getApiKey"`
	GetSteeringMessages answers[schemas.Messages] `json:"getSteeringMessages"`
	GetFollowUpMessages answers[schemas.Messages] `json:"getFollowUpMessages"`
}

// answers is the script of a hook that is asked many times. Nil means that the hook is not installed.
type answers[T any] []answer[T]

// An answer is a value, or the text the call fails with.
type answer[T any] struct {
	value T
	fail  *string
}

func (a *answer[T]) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(data, []byte("{")) {
		return json.Unmarshal(data, &a.value)
	}
	var failure struct {
		Throw *string `json:"throw"`
	}
	if err := json.Unmarshal(data, &failure); err != nil {
		return err
	}
	if failure.Throw == nil {
		return fmt.Errorf("answer %s is neither a value nor a throw", data)
	}
	a.fail = failure.Throw
	return nil
}

// next takes the first answer; when used up, it is the zero value.
func (as *answers[T]) next() (value T, err error) {
	if len(*as) == 0 {
		return value, nil
	}
	first := (*as)[0]
	*as = (*as)[1:]
	return first.value, thrown(first.fail)
}

// thrown is the error a script throws, if it does.
func thrown(text *string) error {
	if text == nil {
		return nil
	}
	return errors.New(*text)
}

// An action is something done to the agent from outside.
type action struct {
	Do         string           `json:"do"`
	Text       string           `json:"text"`
	Images     schemas.Contents `json:"images"`
	Messages   schemas.Messages `json:"messages"`
	Set        settings         `json:"set"`
	Label      string           `json:"label"`
	On         *pattern         `json:"on"`
	Error      string           `json:"error"`
	Background bool             `json:"background"`
}

// prompts are the messages that a prompt, steer or follow-up brings.
func (a action) prompts() schemas.Messages {
	if a.Messages != nil {
		return a.Messages
	}
	return schemas.Messages{userText(a.Text)}
}

// images are the pictures that a prompt's text comes with.
func (a action) images() []schemas.Image {
	var images []schemas.Image
	for _, c := range a.Images {
		if image, ok := c.(schemas.Image); ok {
			images = append(images, image)
		}
	}
	return images
}

func userText(text string) schemas.Message {
	return &schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: text}}}
}

type settings struct {
	SteeringMode  *schemas.QueueMode     `json:"steeringMode"`
	FollowUpMode  *schemas.QueueMode     `json:"followUpMode"`
	ToolExecution *schemas.ExecutionMode `json:"toolExecution"`
	SessionID     *string                `json:"sessionId"`
	SystemPrompt  *string                `json:"systemPrompt"`
	ThinkingLevel *schemas.ThinkingLevel `json:"thinkingLevel"`
	Messages      *schemas.Messages      `json:"messages"`
	Tools         *[]string              `json:"tools"`
}

// A rule performs actions when an event happens.
type rule struct {
	On pattern  `json:"on"`
	Do []action `json:"do"`
}

// A recording is a scenario with what the reference implementation did in it.
type recording struct {
	Scenario scenario `json:"scenario"`
	Expected object   `json:"expected"`
}

// loadRecording refuses members it does not know: a part of a script that is not played would prove nothing.
func loadRecording(path string) (recording, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return recording{}, err
	}
	var r recording
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return recording{}, fmt.Errorf("%s: %w", path, err)
	}
	if !slices.Contains([]string{levelLoop, levelAgent}, r.Scenario.Level) {
		return recording{}, fmt.Errorf("%s: level %q", path, r.Scenario.Level)
	}
	return r, nil
}

const (
	levelLoop  = "loop"
	levelAgent = "agent"
)

// scenarioFiles lists the recordings of a directory in their order.
func scenarioFiles(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no scenarios in %s", dir)
	}
	return files, err
}
