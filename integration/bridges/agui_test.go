package bridges_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// told is an event of AG-UI, as far as the tests look at it.
type told struct {
	Type, ToolCallID, Delta, Code string
	Content                       any
	Outcome                       struct {
		Type               string
		Interrupts         []struct{ ID string }
		PendingToolCallIDs []string
	}
}

// runAGUI posts a run of a client that keeps its own ids of messages, and has a tool. It returns the events.
func (r *rig) runAGUI(thread, run string, messages []string, more ...string) []told {
	r.t.Helper()
	return r.readAGUI(r.postAGUI(thread, run, messages, more...))
}

// postAGUI returns once the stream has begun.
func (r *rig) postAGUI(thread, run string, messages []string, more ...string) *http.Response {
	r.t.Helper()
	body := `{"threadId":"` + thread + `","runId":"` + run + `","protocolVersion":"1.0","tools":[{"name":"pick_colour",` +
		`"description":"asks the user","parameters":{"type":"object"}}],"messages":[` + strings.Join(messages, ",") + `]` +
		strings.Join(append([]string{""}, more...), ",") + `}`
	request, err := http.NewRequestWithContext(bustest.Deadline(r.t), http.MethodPost, r.url+"/ag-ui",
		strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	return response
}

func (r *rig) readAGUI(response *http.Response) []told {
	r.t.Helper()
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		r.t.Fatalf("%d %s, %v", response.StatusCode, said, err)
	}
	var events []told
	for line := range strings.Lines(string(said)) {
		var e told
		if data, ok := strings.CutPrefix(line, "data:"); ok {
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				r.t.Fatal(err)
			}
			events = append(events, e)
		}
	}
	return events
}

func textOf(events []told) (text string) {
	for _, e := range events {
		if e.Type == "TEXT_MESSAGE_CONTENT" {
			text += e.Delta
		}
	}
	return text
}

func resultsOf(events []told) (results []string) {
	for _, e := range events {
		if e.Type == "TOOL_CALL_RESULT" {
			results = append(results, e.Content.(string))
		}
	}
	return results
}

func user(id, text string) string {
	return `{"id":"` + id + `","role":"user","content":"` + text + `"}`
}

func reply(id string, calls ...string) string {
	calls = slices.Clone(calls)
	for i, call := range calls {
		calls[i] = `{"id":"` + call + `","type":"function","function":{"name":"x","arguments":"{}"}}`
	}
	return `{"id":"` + id + `","role":"assistant","toolCalls":[` + strings.Join(calls, ",") + `]}`
}

func result(id, call, text string) string {
	return `{"id":"` + id + `","role":"tool","toolCallId":"` + call + `","content":"` + text + `"}`
}

// wantPrompts fails the test unless the session's log has just these messages of users, in this order.
func (r *rig) wantPrompts(session string, want ...string) {
	r.t.Helper()
	if got := system.Said(r.LogOf(r.t, session)); !slices.Equal(got, want) {
		r.t.Errorf("the users of %s said %q, want %q", session, got, want)
	}
}

// A request has the result of a client's tool and a message of the user, in any order. Both take effect, and its stream
// is that of both runs.
func TestAResultAndAMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for thread, order := range map[string]func(result, message string) []string{
		"result-first":  func(result, message string) []string { return []string{result, message} },
		"message-first": func(result, message string) []string { return []string{message, result} },
	} {
		asked := user("u1", "frontend")
		events := r.runAGUI(thread, "r1", []string{asked})
		pending := events[len(events)-1].Outcome.PendingToolCallIDs
		if len(pending) != 1 {
			t.Fatalf("the calls %q wait for the client", pending)
		}
		messages := append([]string{asked, reply("a1", pending[0])},
			order(result("t1", pending[0], "green"), user("u2", "hello"))...)
		for _, run := range []string{"r2", "r2", "r3"} { // all of it once, whoever repeats it
			events = r.runAGUI(thread, run, messages)
			if end := events[len(events)-1]; end.Type != "RUN_FINISHED" || end.Outcome.PendingToolCallIDs != nil {
				t.Errorf("%s %s ends with %+v", thread, run, end)
			}
			if run == "r2" && len(resultsOf(events)) > 0 && (resultsOf(events)[0] != "green" ||
				textOf(events) != "a fine colourhello to you") {
				t.Errorf("%s: %q %q", thread, resultsOf(events), textOf(events))
			}
		}
		r.wantPrompts(thread, "frontend", "hello")
		ends := system.DataOf[*schemas.ToolExecutionEnd](r.LogOf(t, thread))
		if len(ends) != 1 || ends[0].Result.Content.JoinText() != "green" {
			t.Errorf("%s: the log has the results %+v", thread, ends)
		}
	}
}

// A client whose tool waits sends messages beforehand, all of them each time. Each is sent once, and its result then
// brings the run back, and the messages theirs.
func TestMessagesBeforeAResult(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	messages := []string{user("u1", "frontend")}
	events := r.runAGUI("s1", "r1", messages)
	call := events[len(events)-1].Outcome.PendingToolCallIDs[0]
	messages = append(messages, reply("a1", call))
	for _, m := range []string{user("u2", "hello"), user("u3", "hello"), user("u3", "hello again")} {
		messages = append(messages, m)
		events = r.runAGUI("s1", "run of "+m[7:9], messages)
		if end := events[len(events)-1]; !slices.Equal(end.Outcome.PendingToolCallIDs, []string{call}) {
			t.Errorf("with %s the run ends with %+v", m, end)
		}
	}
	events = r.runAGUI("s1", "r5", append(messages, result("t1", call, "green")))
	if got := resultsOf(events); !slices.Equal(got, []string{"green"}) {
		t.Errorf("the stream has the results %q", got)
	}
	if got := textOf(events); got != "a fine colour"+strings.Repeat("hello to you", 3) {
		t.Errorf("the stream has the text %q", got)
	}
	r.wantPrompts("s1", "frontend", "hello", "hello", "hello again")
}

// A reply calls a tool of the client and one that needs approval. The client answers both at once, with a message or
// without.
func TestAResultAndAnApproval(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for thread, more := range map[string][]string{"both": nil, "all": {user("u2", "hello")}} {
		asked := user("u1", "both")
		events := r.runAGUI(thread, "r1", []string{asked})
		var calls []string
		for _, e := range events {
			if e.Type == "TOOL_CALL_START" {
				calls = append(calls, e.ToolCallID)
			}
		}
		end := events[len(events)-1]
		if len(end.Outcome.Interrupts) != 1 || len(calls) != 2 {
			t.Fatalf("the calls %q, and the end %+v", calls, end)
		}
		resume := `"resume":[{"interruptId":"` + end.Outcome.Interrupts[0].ID + `","status":"resolved",` +
			`"payload":{"approved":true}}]`
		messages := append([]string{asked, reply("a1", calls...), result("t1", calls[0], "green")}, more...)
		wantText, wantSaid := "it is both", []string{"both"}
		if more != nil {
			wantText, wantSaid = wantText+"hello to you", append(wantSaid, "hello")
		}
		for n := range 2 {
			events = r.runAGUI(thread, "r2", messages, resume)
			if end := events[len(events)-1]; end.Type != "RUN_FINISHED" || end.Outcome.PendingToolCallIDs != nil {
				t.Errorf("%s ends with %+v", thread, end)
			}
			if got := resultsOf(events); n == 0 && !slices.Equal(got, []string{"green", `{"v":"y"}`}) {
				t.Errorf("%s has the results %q", thread, got)
			}
			if got := textOf(events); n == 0 && got != wantText {
				t.Errorf("%s has the text %q", thread, got)
			}
		}
		r.wantPrompts(thread, wantSaid...)
	}
}

// A message that the session has refused was not sent: it is sent with the next request, whatever its run.
func TestARefusedMessageIsSentAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	asked := user("u1", "frontend")
	call := r.runAGUI("s1", "r1", []string{asked})
	messages := []string{asked, reply("a1", call[len(call)-1].Outcome.PendingToolCallIDs[0]), user("u2", "hello")}
	for range loop.MaxQueued {
		r.Send(t, "s1", &schemas.FollowUp{Input: schemas.Input{Text: "more"}})
	}
	for _, run := range []string{"r2", "r3"} {
		events := r.runAGUI("s1", run, messages)
		if end := events[len(events)-1]; end.Type != "RUN_ERROR" || end.Code != string(schemas.RejectQueueFull) {
			t.Errorf("%s ends with %+v", run, end)
		}
	}
	r.Send(t, "s1", &schemas.ClearQueue{})
	for _, run := range []string{"r4", "r5"} {
		events := r.runAGUI("s1", run, messages)
		if end := events[len(events)-1]; len(end.Outcome.PendingToolCallIDs) != 1 {
			t.Errorf("%s ends with %+v", run, end)
		}
	}
	r.Send(t, "s1", &schemas.Abort{})
	r.Until(t, "s1", "the message is answered", system.Ends(2))
	r.wantPrompts("s1", "frontend", "hello")
}

// Who opens a thread without a message sees the run under way and those of the prompts that wait. A prompt of another
// client that is withdrawn is no failure of this one's run.
func TestAThreadWithPrompts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Prompt(t, "s1", "slow")
	r.Prompt(t, "s1", "hello")
	r.Until(t, "s1", "both are accepted", bustest.Nth(2, schemas.EventCommandAccepted))
	events := r.runAGUI("s1", "r1", nil)
	if got, end := textOf(events), events[len(events)-1]; end.Type != "RUN_FINISHED" ||
		!strings.HasSuffix(got, "and donehellohello to you") {
		t.Errorf("the stream has %q and ends with %+v", got, end)
	}

	r.Prompt(t, "s2", "hang")
	r.Prompt(t, "s2", "hello")
	r.Until(t, "s2", "the first one runs", bustest.Nth(1, schemas.EventMessageStart))
	r.Until(t, "s2", "both are accepted", bustest.Nth(2, schemas.EventCommandAccepted))
	stream := r.postAGUI("s2", "r1", nil)
	r.Send(t, "s2", &schemas.ClearQueue{})
	r.Until(t, "s2", "the prompt is withdrawn", bustest.Nth(1, schemas.EventCommandWithdrawn))
	r.Send(t, "s2", &schemas.Abort{})
	events = r.readAGUI(stream)
	if end := events[len(events)-1]; end.Type != "RUN_FINISHED" || end.Outcome.Type != "cancelled" {
		t.Errorf("the stream ends with %+v", end)
	}
}
