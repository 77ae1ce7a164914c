package bridges_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

// handling is a service that handles the inputs that begin with the text.
type handling string

func (text handling) Ask(_ context.Context, _ schemas.HookRef, req schemas.HookRequest) (schemas.HookAnswer, error) {
	said := req.Messages[0].(*schemas.UserMessage).Content.JoinText()
	return schemas.HookAnswer{Handled: strings.HasPrefix(said, string(text))}, nil
}

// chatEnd is the event that ends a message, without its number, and without the usage.
type chatEnd struct {
	State, ErrorMessage, StopReason string
	Message                         json.RawMessage
}

// isEnd reports whether a frame ends the message with the key.
func isEnd(key string, f frame) (end chatEnd, ok bool) {
	var p struct {
		RunID string
		chatEnd
	}
	ok = f.Event == "chat" && json.Unmarshal(f.Payload, &p) == nil && p.RunID == key && p.State != "delta"
	return p.chatEnd, ok
}

// ended reads up to the end of the message with the key.
func (c *chat) ended(key string) (end chatEnd) {
	c.t.Helper()
	c.until(func(f frame) (ok bool) { end, ok = isEnd(key, f); return ok })
	return end
}

func (c *chat) say(message map[string]any) {
	c.t.Helper()
	if a := c.request("chat.send", message); !a.OK {
		c.t.Fatalf("chat.send %v: %+v", message, a)
	}
}

// Every message that the gateway takes ends with an event "chat" that says how, also one that starts no run: the
// session refuses it, a hook handles it, a run takes it in, it is withdrawn. One that is sent again, on another
// connection or on the same one, ends as it did the first time.
func TestEveryMessageEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *host.Options) {
		o.Services = handling("faq")
		o.Defaults.Hooks = []schemas.HookRef{{Hook: schemas.HookInput, Service: "triage", TimeoutMs: 60_000}}
	})
	c := r.connected(nil)
	sent := map[string]map[string]any{}
	say := func(session, text, key, mode string, attachments ...map[string]any) {
		t.Helper()
		sent[key] = message(session, text, key, mode)
		sent[key]["attachments"] = attachments
		c.say(sent[key])
	}
	ends := map[string]chatEnd{}
	end := func(key, state, stop string, says bool) {
		t.Helper()
		got := c.ended(key)
		if ends[key] = got; got.State != state || got.StopReason != stop || (got.ErrorMessage != "") != says {
			t.Errorf("%s ends with %+v, want %s %q, with a reason: %v", key, got, state, stop, says)
		}
	}
	for _, mode := range []string{"", "steer", "followup", "interrupt"} {
		say("refuses", "hello", "refused-"+mode, mode, map[string]any{"mimeType": "image/", "content": "eA=="})
		end("refused-"+mode, "error", "", true)
		say("handles", "faq: how?", "handled "+mode, mode)
		end("handled "+mode, "final", "handled", false)
	}
	say("s1", "hello", "run", "")
	end("run", "final", string(schemas.EndNoToolCalls), false)
	say("s1", "fail", "failed", "")
	end("failed", "error", "", true)
	c.request("exec.approval.list", map[string]any{}) // from now on requests are told
	say("s2", "danger", "first", "")
	c.until(named("exec.approval.requested"))
	say("s2", "faq: meanwhile?", "aside", "steer")
	end("aside", "final", "handled", false)
	say("s2", "hello, too", "joined", "steer")
	say("s2", "hello", "withdrawn", "")
	c.expectStopped("s2", "withdrawn", "withdrawn")
	end("withdrawn", "aborted", "", true)
	c.allowAll()
	end("joined", "final", "joined", false)
	end("first", "final", string(schemas.EndNoToolCalls), false)
	say("s2", "hang", "aborted", "")
	c.until(func(f frame) bool { return f.Event == "chat" && strings.Contains(string(f.Payload), "begun") })
	c.expectStopped("s2", "aborted", "aborted")
	end("aborted", "aborted", string(schemas.EndAbort), true)

	for what, c := range map[string]*chat{"another connection": r.connected(nil), "the same one": c} {
		for key, params := range sent {
			c.say(params)
			if d := cmp.Diff(ends[key], c.ended(key)); d != "" {
				t.Errorf("%s, sent again on %s, ends with (-first +again):\n%s", key, what, d)
			}
		}
	}
}

// A message that is sent again before it has ended ends once on each connection.
func TestAMessageSentAgainEndsOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	all := map[string]*chat{"own": r.connected(nil), "other": r.connected(nil)}
	own := all["own"]
	own.request("exec.approval.list", map[string]any{})
	own.say(message("s1", "danger", "k1", ""))
	own.until(named("exec.approval.requested"))
	own.say(message("s1", "hello, too", "k2", "steer"))
	for _, c := range all {
		for range 2 {
			c.say(message("s1", "danger", "k1", ""))
			c.say(message("s1", "hello, too", "k2", "steer"))
		}
	}
	own.allowAll()
	for name, c := range all {
		got := map[string]int{}
		until := func(last string) {
			c.until(func(f frame) bool {
				for _, key := range slices.Compact([]string{"k2", "k1", last}) {
					if _, ok := isEnd(key, f); ok {
						got[key]++
					}
				}
				return got[last] > 0
			})
		}
		until("k1")
		c.say(message("s1", "hello", "after "+name, ""))
		until("after " + name)
		if got["k1"] != 1 || got["k2"] != 1 {
			t.Errorf("on the connection %s they end %v times", name, got)
		}
	}
}

// allowAll approves the calls that wait.
func (c *chat) allowAll() {
	c.t.Helper()
	var list []struct{ ID string }
	listed := c.request("exec.approval.list", map[string]any{})
	if err := json.Unmarshal(listed.Payload, &list); err != nil || len(list) == 0 {
		c.t.Fatalf("%v: %s", err, listed.Payload)
	}
	for _, asked := range list {
		if a := c.request("exec.approval.resolve", map[string]any{"id": asked.ID, "decision": "allow-once"}); !a.OK {
			c.t.Fatalf("resolve: %+v", a)
		}
	}
}
