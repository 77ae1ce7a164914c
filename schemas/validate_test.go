package schemas_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
)

func TestValidateUnknownTypes(t *testing.T) {
	for what, err := range map[string]error{
		"command":                 schemas.ValidateCommand("dance", []byte(`{}`)),
		"event":                   schemas.ValidateEvent("agent_dance", []byte(`{}`)),
		"event that is live only": schemas.ValidateEvent(schemas.EventMessageUpdate, []byte(`{}`)),
		"update":                  schemas.ValidateUpdate("agent_dance", []byte(`{}`)),
		"update that is durable":  schemas.ValidateUpdate(schemas.EventMessageEnd, []byte(`{}`)),
		"command with path":       schemas.ValidateCommand("../events/error", []byte(`{}`)),
		"empty command":           schemas.ValidateCommand("", []byte(`{}`)),
		"parsed command":          second(schemas.ParseCommand("dance", []byte(`{}`))),
		"command of a plain text": last(schemas.PlainText("dance", []byte(`hi`))),
	} {
		var unknown *schemas.UnknownTypeError
		if !errors.As(err, &unknown) {
			t.Errorf("%s: error %v, want an *UnknownTypeError", what, err)
		}
	}
}

func second(_ string, _ schemas.CommandData, err error) error { return err }
func last[T any](_ T, err error) error                        { return err }

func TestValidateProblems(t *testing.T) {
	tests := map[string]struct {
		payload string
		want    []string
	}{
		"sorted, with paths": {
			`{"whenBusy":"no","id":5,"messages":[{"role":"user"},{"role":"assistant","content":[{"type":"image"}]}],"text":"x"}`,
			[]string{
				"/id: expected string, but got number",
				"/messages/0: missing properties: 'content'",
				`/messages/1/content/0/type: value must be one of "text", "thinking", "toolCall"`,
				"/messages/1: missing properties: 'usage', 'stopReason'",
				"/text: not allowed",
				`/whenBusy: value must be one of "queue", "steer", "follow_up", "interrupt", "reject"`,
			},
		},
		"at most eight": {
			`{"messages":[1,2,3,4,5,6,7,8,9]}`,
			[]string{
				"/messages/0: expected object, but got number", "/messages/1: expected object, but got number",
				"/messages/2: expected object, but got number", "/messages/3: expected object, but got number",
				"/messages/4: expected object, but got number", "/messages/5: expected object, but got number",
				"/messages/6: expected object, but got number", "/messages/7: expected object, but got number",
			},
		},
		"empty":                {``, []string{"payload: not JSON: broken or incomplete near byte 0"}},
		"cut off":              {`{"text":"a"`, []string{"payload: not JSON: broken or incomplete near byte 11"}},
		"broken":               {`{"text":nope}`, []string{"payload: not JSON: broken or incomplete near byte 8"}},
		"two values":           {`{"text":"a"}{"text":"b"}`, []string{"payload: something follows the value at byte 13"}},
		"trailing letters":     {`{"text":"a"} and more`, []string{"payload: something follows the value at byte 13"}},
		"invalid UTF-8":        {"{\"text\":\"a\xff\"}", []string{"payload: not valid UTF-8"}},
		"member twice":         {`{"text":"a","text":"b"}`, []string{`payload: member "text" is there twice`}},
		"member twice, deeper": {`{"text":"a","x":[{"y":1,"y":2}]}`, []string{`payload: member "y" is there twice`}},
		"another case": {`{"text":"a","WHENBUSY":"x"}`,
			[]string{`payload: member "WHENBUSY" must be written in another case: "whenBusy"`}},
		"another case, folded": {`{"text":"a","whenBuſy":"x"}`,
			[]string{`payload: member "whenBuſy" must be written in another case: "whenBusy"`}},
		"members that look alike": {`{"text":"a","textual":1,"tex":2}`, nil},
		"number out of range":     {`{"text":"a","x":1e999}`, []string{"payload: a number is out of range"}},
		"huge exponent": {`{"messages":[{"role":"user","content":"x","timestamp":1e308}]}`,
			[]string{"/messages/0/timestamp: greater than the maximum"}},
		"tiny exponent": {`{"messages":[{"role":"user","content":"x","timestamp":1e-99999999}]}`, nil},
		"too deep": {`{"text":"a","x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`,
			[]string{"payload: nested more than 256 deep"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := schemas.ValidateCommand(schemas.CommandPrompt, []byte(test.payload))
			if test.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var invalid *schemas.ValidationError
			if !errors.As(err, &invalid) {
				t.Fatalf("error %v, want a *ValidationError", err)
			}
			if d := cmp.Diff(test.want, invalid.Problems); d != "" {
				t.Errorf("problems (-want +got):\n%s", d)
			}
			if want := "schemas: command prompt: " + strings.Join(test.want, "; "); err.Error() != want {
				t.Errorf("text %q, want %q", err, want)
			}
		})
	}
}

// Members come out of the library's maps in random order.
func TestValidateProblemsAreStable(t *testing.T) {
	payload := []byte(`{"id":1,"call":2,"toolCallId":3,"toolName":4,"result":5,"isError":6,"durationMs":"7",` +
		`"worker":8,"x":9}`)
	want := schemas.ValidateCommand(schemas.CommandToolResult, payload).Error()
	for range 50 {
		if got := schemas.ValidateCommand(schemas.CommandToolResult, payload).Error(); got != want {
			t.Fatalf("%s\n%s", want, got)
		}
	}
}

// What somebody wrote must not get into logs by way of an error.
func TestValidateErrorsQuoteNoContent(t *testing.T) {
	const secret = "sk-secret"
	for _, payload := range []string{
		`{"text":"` + secret + `","whenBusy":"` + secret + `"}`,
		`{"id":"` + strings.Repeat(secret, 50) + `","text":"hi"}`,
		`{"text":"hi","images":[{"type":"` + secret + `","data":"` + secret + `!","mimeType":"` + secret + `"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"` + secret + `"}]}]}`,
		`{"messages":[{"role":"user","content":7,"timestamp":-123456789123456789}]}`,
		`{"messages":[{"role":"assistant","stopReason":"` + secret + `","content":[],"usage":{}}]}`,
		`"` + secret + `"`, secret, `{"text":"` + secret, `{"text":` + secret + `}`, secret + "\xff",
	} {
		err := schemas.ValidateCommand(schemas.CommandPrompt, []byte(payload))
		if err == nil {
			t.Errorf("%s is valid", payload)
		} else if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "123456789") {
			t.Errorf("error quotes: %v", err)
		}
	}
	err := schemas.ValidateEvent(schemas.EventCommandAccepted,
		[]byte(`{"commandId":"c","kind":"prompt","time":"`+secret+`"}`))
	if err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("format: %v", err)
	}
}

func TestValidateConcurrently(t *testing.T) {
	var wg sync.WaitGroup
	for _, kind := range schemas.CommandKinds() {
		wg.Go(func() {
			if err := schemas.ValidateCommand(kind, []byte(`[]`)); err == nil {
				t.Errorf("%s: an array is valid", kind)
			}
		})
	}
	wg.Wait()
}

func TestValidateToolMessages(t *testing.T) {
	request := schemas.ToolRequest{Session: "s1", RunID: "r1", TurnID: "t1", Call: schemas.NewCallKey(7),
		ToolCallID: "a|b",
		ToolName:   "ls", Arguments: []byte(`{"b":1,"a":2}`), StartSeq: 7}
	if err := schemas.ValidateToolRequest(marshal(t, request)); err != nil {
		t.Error(err)
	}
	request.Session = "a.b"
	if err := schemas.ValidateToolRequest(marshal(t, request)); err == nil {
		t.Error("a request of an illegal session is valid")
	}
	announcement := schemas.ToolAnnouncement{Worker: "w1", Since: "2026-01-01T00:00:00Z",
		ToolDefinition: schemas.ToolDefinition{Name: "ls"}}
	if err := schemas.ValidateToolAnnouncement(marshal(t, announcement)); err != nil {
		t.Error(err)
	}
	announcement.Since = "1 January"
	if err := schemas.ValidateToolAnnouncement(marshal(t, announcement)); err == nil {
		t.Error("an announcement without a time is valid")
	}
}

// Whatever the zero values of the types come to, a reader gets lists where the schema says lists.
func TestNilListsAreWrittenAsLists(t *testing.T) {
	for _, v := range []schemas.EventData{
		&schemas.AgentEnd{TerminationReason: schemas.EndAbort}, &schemas.TurnEnd{MessageID: "m1"}, &schemas.QueueUpdate{},
		&schemas.TranscriptReplaced{}, &schemas.MessageEnd{MessageID: "m1",
			Message: schemas.AnyMessage{Message: &schemas.UserMessage{}}},
		&schemas.ToolExecutionEnd{Call: "c1"}, &schemas.AgentStart{},
	} {
		if err := schemas.ValidateEvent(v.EventType(), marshal(t, v)); err != nil {
			t.Error(err)
		}
	}
	for _, v := range []schemas.UpdateData{&schemas.MessageUpdate{MessageID: "m1"},
		&schemas.ToolExecutionUpdate{Call: "c1"}} {
		if err := schemas.ValidateUpdate(v.EventType(), marshal(t, v)); err != nil {
			t.Error(err)
		}
	}
}

func ExampleValidateCommand() {
	err := schemas.ValidateCommand(schemas.CommandCancelInput, []byte(`{"input":"cmd-2"}`))
	var invalid *schemas.ValidationError
	if errors.As(err, &invalid) {
		fmt.Println(slices.Compact(invalid.Problems))
	}
	// Output: [payload: missing properties: 'inputId']
}
