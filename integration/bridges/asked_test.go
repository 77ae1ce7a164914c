package bridges_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

// rewriting is a service that replaces the arguments of calls.
type rewriting string

func (args rewriting) Ask(context.Context, schemas.HookRef, schemas.HookRequest) (schemas.HookAnswer, error) {
	return schemas.HookAnswer{Args: json.RawMessage(args)}, nil
}

// A service has replaced the model's arguments. Bridges show the replaced ones, to clients that connect later, too.
func TestWhatIsAskedAboutIsWhatIsExecuted(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *host.Options) {
		o.Services = rewriting(`{"v":"of a service"}`)
		o.Defaults.Hooks = []schemas.HookRef{{Hook: schemas.HookBeforeToolCall, Service: "policy", TimeoutMs: 60_000}}
	})
	ask := func(run string) string {
		t.Helper()
		body := `{"threadId":"s1","runId":"` + run + `","protocolVersion":"1.0","messages":[` +
			`{"id":"u1","role":"user","content":"danger"}]}`
		response, err := http.Post(r.url+"/ag-ui", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		said, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		_, end, _ := strings.Cut(string(said), `"type":"RUN_FINISHED"`)
		return end
	}
	for _, when := range []string{"as it is asked", "later"} {
		if end := ask("r1"); !strings.Contains(end, `"arguments":{"v":"of a service"}`) {
			t.Errorf("AG-UI, %s, asks %s", when, end)
		}
	}
	c := r.chat("", nil)
	c.until(named("connect.challenge"))
	c.request("connect", map[string]any{"minProtocol": 4, "maxProtocol": 4, "auth": map[string]any{"token": chatToken}})
	list := c.request("exec.approval.list", map[string]any{})
	if !strings.Contains(string(list.Payload), `"args":{"v":"of a service"}`) ||
		!strings.Contains(string(list.Payload), `danger {\"v\":\"of a service\"}`) {
		t.Errorf("the gateway lists %s", list.Payload)
	}
}

// Arguments that are too large to be kept for every viewer are left out of the approvals of the gateway: of the list,
// and of what a viewer is told later.
func TestLargeArgumentsAreLeftOutOfApprovals(t *testing.T) {
	t.Parallel()
	large := `{"v":"` + strings.Repeat("x", 100<<10) + `"}`
	r := newRig(t, func(o *host.Options) {
		o.Services = rewriting(large)
		o.Defaults.Hooks = []schemas.HookRef{{Hook: schemas.HookBeforeToolCall, Service: "policy", TimeoutMs: 60_000}}
	})
	c := r.chat("", nil)
	c.until(named("connect.challenge"))
	c.request("connect", map[string]any{"minProtocol": 4, "maxProtocol": 4, "auth": map[string]any{"token": chatToken}})
	c.request("exec.approval.list", map[string]any{})
	check := func(what string, payload []byte) {
		t.Helper()
		want := `"danger (its arguments of ` + strconv.Itoa(len(large)) + ` bytes are in the session's approval_requested)"`
		if !strings.Contains(string(payload), want) || strings.Contains(string(payload), `"args"`) || len(payload) > 1<<10 {
			t.Errorf("%s: %.200s", what, payload)
		}
	}
	go func() {
		if _, err := r.client.Session("s1").Prompt(bustest.Deadline(t), client.Text("danger")); err != nil {
			t.Error(err)
		}
	}()
	told := c.until(named("exec.approval.requested"))
	check("told later", told[len(told)-1].Payload)
	check("listed again", c.request("exec.approval.list", map[string]any{}).Payload)
	other := r.chat("", nil)
	other.until(named("connect.challenge"))
	auth := map[string]any{"token": chatToken}
	other.request("connect", map[string]any{"minProtocol": 4, "maxProtocol": 4, "auth": auth})
	bustest.Eventually(t, "the index has it", func() bool {
		return len(other.request("exec.approval.list", map[string]any{}).Payload) > len("[]")
	})
	check("listed", other.request("exec.approval.list", map[string]any{}).Payload)
}

// A client of a bridge answers a request for approval after the session was deleted and started again, and a call with
// the same key waits. Its answer is rejected and has no effect. Its answer to the new request counts.
func TestAnAnswerIsToWhatWasShown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	post := func(run, member string) (status int, said string) {
		t.Helper()
		body := `{"threadId":"s1","runId":"` + run + `","protocolVersion":"1.0",` + member + `}`
		response, err := http.Post(r.url+"/ag-ui", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		all, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(all)
	}
	interrupt := func(run, member string) string {
		t.Helper()
		_, said := post(run, member)
		_, id, _ := strings.Cut(said, `"interrupts":[{"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		return id
	}
	c := r.chat("", nil)
	c.until(named("connect.challenge"))
	c.request("connect", map[string]any{"minProtocol": 4, "maxProtocol": 4, "auth": map[string]any{"token": chatToken}})
	listed := func() string {
		t.Helper()
		var list []struct{ ID string }
		answer := c.request("exec.approval.list", map[string]any{})
		if err := json.Unmarshal(answer.Payload, &list); err != nil || len(list) != 1 {
			t.Fatalf("the gateway lists %s: %v", answer.Payload, err)
		}
		return list[0].ID
	}
	shown := interrupt("r1", `"messages":[{"id":"u1","role":"user","content":"danger"}]`)
	bustest.Eventually(t, "the index has it", func() bool {
		return strings.Contains(string(c.request("exec.approval.list", map[string]any{}).Payload), `"s1/c`)
	})
	shownThere := listed()
	old, now := r.Anew(t, "s1", "danger")
	if want := string(old.Call) + "/" + old.Digest; shown != want || shownThere != "s1/"+want {
		t.Errorf("the bridges show %s and %s, want %s", shown, shownThere, want)
	}
	for i, payload := range []string{`"approved":true`, `"approved":false`, `"approved":true,"editedArgs":{"v":"z"}`} {
		resume := `"messages":[],"resume":[{"interruptId":"` + shown + `","status":"resolved","payload":{` + payload + `}}]`
		if status, said := post("resume-"+strconv.Itoa(i), resume); status != http.StatusConflict ||
			!strings.Contains(said, `"stale"`) || !strings.Contains(said, "look at the call again") {
			t.Errorf("AG-UI, with %s, answers %d %s", payload, status, said)
		}
	}
	for _, decision := range []string{"allow-once", "deny"} {
		a := c.request("exec.approval.resolve", map[string]any{"id": shownThere, "decision": decision})
		if a.OK || !strings.Contains(a.Error.Message, "look at the call again") {
			t.Errorf("the gateway answers %s with %+v", decision, a)
		}
	}
	r.Unanswered(t, "s1")
	bustest.Eventually(t, "the gateway lists what waits now", func() bool {
		list := c.request("exec.approval.list", map[string]any{})
		return strings.Contains(string(list.Payload), now.Digest) && !strings.Contains(string(list.Payload), old.Digest)
	})
	again := interrupt("r2", `"messages":[]`)
	resume := `"messages":[],"resume":[{"interruptId":"` + again + `","status":"resolved","payload":{"approved":true}}]`
	if status, said := post("r3", resume); status != http.StatusOK || !strings.Contains(said, "TOOL_CALL_RESULT") {
		t.Errorf("the answer to the new request got %d %s", status, said)
	}
}

// If the data of one session is missing, as during its deletion, clients still get the approvals of other sessions.
func TestApprovalsBesideOneThatCannotBeRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	waits := func(session, text string) {
		t.Helper()
		if _, err := r.client.Session(session).Prompt(t.Context(), schemas.Input{Text: text}); err != nil {
			t.Fatal(err)
		}
		for a, err := range r.client.Approvals(bustest.Deadline(t)) {
			if err != nil {
				t.Fatal(err)
			}
			if a.Session == session {
				return
			}
		}
	}
	waits("s1", "big")
	blobs, err := r.Conn.JetStream().ObjectStore(t.Context(), schemas.BucketBlobs)
	if err != nil {
		t.Fatal(err)
	}
	all, err := blobs.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if err := blobs.Delete(t.Context(), o.Name); err != nil {
			t.Fatal(err)
		}
	}
	waits("s2", "danger")
	waiting := schemas.SessionsQuery{Status: []schemas.SessionStatus{schemas.SessionWaitingForApproval}}
	bustest.Eventually(t, "the index has both", func() bool {
		page, err := r.client.Sessions(t.Context(), waiting)
		return err == nil && len(page.Sessions) == 2
	})
	c := r.chat("", nil)
	c.until(named("connect.challenge"))
	c.request("connect", map[string]any{"minProtocol": 4, "maxProtocol": 4})
	for range 2 {
		if list := c.request("exec.approval.list", map[string]any{}); !strings.Contains(string(list.Payload), `"s2/c`) {
			t.Errorf("the gateway lists %s", list.Payload)
		}
	}
}
