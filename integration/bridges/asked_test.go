package bridges_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

// rewriting is a service that has other arguments executed.
type rewriting string

func (args rewriting) Ask(context.Context, schemas.HookRef, schemas.HookRequest) (schemas.HookAnswer, error) {
	return schemas.HookAnswer{Args: json.RawMessage(args)}, nil
}

// A service has put other arguments in place of the model's: bridges show these, also those that come later.
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

// The data of one session that are gone, as while it is deleted, keep nobody from the approvals of others.
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
