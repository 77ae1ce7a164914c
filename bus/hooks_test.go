package bus_test

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// service subscribes f to the subject of a hook.
func service(t *testing.T, c *bus.Conn, subject string, f func(m *nats.Msg)) {
	t.Helper()
	sub, err := c.NATS().Subscribe(subject, f)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.NATS().Flush(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
}

func TestHooksAsk(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	hooks := bus.NewHooks(c)
	var asked schemas.HookRequest
	service(t, c, "agent.hook.beforeToolCall.policy", func(m *nats.Msg) {
		var err error
		if asked, err = schemas.ParseHookRequest(m.Data); err != nil {
			t.Error(err)
		}
		_ = m.Respond([]byte(`{"block":true,"reason":"no","by":"ann"}`))
	})
	ref := schemas.HookRef{Hook: schemas.HookBeforeToolCall, Service: "policy", TimeoutMs: 60_000}
	req := schemas.HookRequest{Hook: schemas.HookBeforeToolCall, Session: "s1", Call: "c3", ToolName: "bash",
		Args: []byte(`{"a":1}`)}
	answer, err := hooks.Ask(bustest.Deadline(t), ref, req)
	if err != nil || !answer.Block || answer.Reason != "no" || answer.By != "ann" {
		t.Errorf("answer %+v, %v", answer, err)
	}
	if d := cmp.Diff(req, asked); d != "" {
		t.Errorf("asked (-want +got):\n%s", d)
	}
}

func TestHooksFail(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	hooks := bus.NewHooks(c)
	service(t, c, "agent.hook.input.silent", func(*nats.Msg) {})
	service(t, c, "agent.hook.input.confused", func(m *nats.Msg) { _ = m.Respond([]byte(`{"handled":"perhaps"}`)) })
	service(t, c, "agent.hook.input.broken", func(m *nats.Msg) {
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Nats-Service-Error": {"out of order"},
			"Nats-Service-Error-Code": {"500"}}})
	})
	service(t, c, "agent.hook.input.quiet", func(m *nats.Msg) { _ = m.Respond(nil) })
	big := schemas.Messages{&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: strings.Repeat("x",
		2<<20)}}}}
	large := json.RawMessage(strconv.Quote(strings.Repeat("x", 6<<20)))
	for _, c := range []struct {
		service string
		limit   int64
		req     schemas.HookRequest
		want    string
	}{
		{"silent", 20, schemas.HookRequest{}, "hook agent.hook.input.silent: no answer within 20ms"},
		{"nobody", 60_000, schemas.HookRequest{}, "hook agent.hook.input.nobody: no service listens"},
		{"confused", 60_000, schemas.HookRequest{}, "hook agent.hook.input.confused: schemas: hook answer: /handled: " +
			"expected boolean, but got string"},
		{"broken", 60_000, schemas.HookRequest{}, "hook agent.hook.input.broken: the service answered with an error: " +
			"out of order"},
		{"quiet", 60_000, schemas.HookRequest{}, "hook agent.hook.input.quiet: the answer is empty"},
		{"quiet", 60_000, schemas.HookRequest{Messages: big}, "hook agent.hook.input.quiet: the request has 2097"},
		{"quiet", 60_000, schemas.HookRequest{Messages: slices.Repeat(big, 3)}, "hook agent.hook.input.quiet: " +
			"the request has some 629"}, // it is not encoded
		{"quiet", 60_000, schemas.HookRequest{Payload: large}, "hook agent.hook.input.quiet: the request has some 629"},
		{"quiet", 60_000, schemas.HookRequest{Args: large}, "hook agent.hook.input.quiet: the request has some 629"},
		{"quiet", 60_000, schemas.HookRequest{Result: &schemas.ToolResult{Details: large}}, "hook agent.hook.input.quiet: " +
			"the request has some 629"},
		{"quiet", 60_000, schemas.HookRequest{Message: &schemas.AnyMessage{Message: &schemas.UserMessage{
			Content: schemas.Contents{schemas.Text{Text: string(large)}}}}}, "hook agent.hook.input.quiet: " +
			"the request has some 629"},
	} {
		c.req.Hook, c.req.Session = schemas.HookInput, "s1"
		_, err := hooks.Ask(bustest.Deadline(t), schemas.HookRef{Hook: schemas.HookInput, Service: c.service,
			TimeoutMs: c.limit}, c.req)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.service, got, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := hooks.Ask(ctx, schemas.HookRef{Hook: schemas.HookInput, Service: "silent"},
		schemas.HookRequest{Session: "s1"}); err == nil ||
		strings.Contains(err.Error(), "no answer within") {
		t.Errorf("after cancelling: %v", err)
	}
}

// An operator records the requests to services in a stream. The acknowledgement of the stream arrives at the same inbox
// as the answer of the service. It must not count as the answer, because it would allow every call.
func TestHooksIgnoreAcknowledgements(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	stream, err := c.JetStream().CreateStream(bustest.Deadline(t),
		jetstream.StreamConfig{Name: "AUDIT", Subjects: []string{"agent.hook.>", "agent.key.>"}})
	if err != nil {
		t.Fatal(err)
	}
	hooks := bus.NewHooks(c)
	req := schemas.HookRequest{Hook: schemas.HookBeforeToolCall, Session: "s1", Call: "c1", ToolName: "bash"}
	nobody := schemas.HookRef{Hook: schemas.HookBeforeToolCall, Service: "nobody", TimeoutMs: 200}
	if answer, err := hooks.Ask(bustest.Deadline(t), nobody, req); err == nil {
		t.Errorf("without a service the answer is %+v", answer)
	}
	service(t, c, "agent.hook.beforeToolCall.policy", func(m *nats.Msg) {
		for {
			info, err := stream.Info(t.Context())
			if err != nil || info.State.Msgs >= 2 { // this request is stored
				break
			}
		}
		_ = m.Respond([]byte(`{"block":true}`))
	})
	policy := schemas.HookRef{Hook: schemas.HookBeforeToolCall, Service: "policy", TimeoutMs: 60_000}
	if answer, err := hooks.Ask(bustest.Deadline(t), policy, req); err != nil || !answer.Block {
		t.Errorf("the service blocks, and the answer is %+v, %v", answer, err)
	}
	keys := bus.NewKeys(c, bus.KeyOptions{Timeout: 200 * time.Millisecond,
		Parse: func(a []byte) (string, time.Time, error) { return string(a), time.Time{}, nil }})
	if key, err := keys.Key(bustest.Deadline(t), "vendor"); err == nil {
		t.Errorf("without a service the key is %s", key)
	}
}

// What services answer, and send besides, does not come by the connection of everything else, nor by that of another
// service.
func TestServicesHaveConnectionsOfTheirOwn(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	hooks := bus.NewHooks(c)
	for _, name := range []string{"one", "two"} {
		service(t, c, "agent.hook.input."+name, func(m *nats.Msg) {
			_ = m.Respond([]byte(`{"stream":"x","seq":1}`)) // passed over
			_ = m.Respond([]byte(`{}`))
		})
	}
	before, received := c.NATS().Stats().InMsgs, uint64(0)
	for _, name := range []string{"one", "two", "one"} {
		ref := schemas.HookRef{Hook: schemas.HookInput, Service: name, TimeoutMs: 60_000}
		_, err := hooks.Ask(bustest.Deadline(t), ref, schemas.HookRequest{Hook: schemas.HookInput, Session: "s1"})
		if received++; err != nil { // the request
			t.Error(err)
		}
	}
	if n := c.NATS().Stats().InMsgs - before; n != received {
		t.Errorf("%d messages came by the connection of everything else, want the %d requests", n, received)
	}
	if one, two := bus.HookConn(hooks, "agent.hook.input.one"), bus.HookConn(hooks, "agent.hook.input.two"); one == two ||
		one.Stats().InMsgs < 2 || two.Stats().InMsgs < 1 {
		t.Errorf("connections of the services: %v, %v", one, two)
	}
}

// Only so many requests to a service are under way as its answers may arrive at once: 256, and fewer once it has
// answered at length. Other services do not wait for it.
func TestAnswersOfAServiceAreBounded(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	hooks := bus.NewHooks(c)
	asked := make(chan *nats.Msg, 1000)
	service(t, c, "agent.hook.input.large", func(m *nats.Msg) { asked <- m })
	service(t, c, "agent.hook.input.other", func(m *nats.Msg) { _ = m.Respond([]byte(`{}`)) })
	ask := func(service string) error {
		ref := schemas.HookRef{Hook: schemas.HookInput, Service: service, TimeoutMs: 60_000}
		_, err := hooks.Ask(bustest.Deadline(t), ref, schemas.HookRequest{Hook: schemas.HookInput, Session: "s1"})
		return err
	}
	var asking sync.WaitGroup
	var answered atomic.Int32
	for range 600 {
		asking.Go(func() {
			if err := ask("large"); err != nil {
				t.Error(err)
			}
			answered.Add(1)
		})
	}
	answer := []byte(`{"systemPrompt":"` + strings.Repeat("x", 900<<10) + `"}`)
	bustest.Eventually(t, "256 are asked", func() bool { return len(asked) >= 256 })
	if err := ask("other"); err != nil {
		t.Error(err)
	}
	if n := len(asked); n != 256 {
		t.Errorf("%d requests are under way, want 256", n)
	}
	_ = (<-asked).Respond(answer)
	bustest.Eventually(t, "the answer has arrived", func() bool { return answered.Load() == 1 })
	for range 255 {
		_ = (<-asked).Respond([]byte(`{}`))
	}
	bustest.Eventually(t, "36 are asked", func() bool { return answered.Load() == 256 && len(asked) >= 36 })
	if err := ask("other"); err != nil {
		t.Error(err)
	}
	if n := len(asked); n != 36 {
		t.Errorf("%d requests with large answers are under way, want 36", n)
	}
	for range 600 - 256 {
		_ = (<-asked).Respond([]byte(`{}`))
	}
	asking.Wait()
}
