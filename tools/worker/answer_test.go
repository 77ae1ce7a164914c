package worker_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

// A result that no event can hold is answered at once, as it would be in memory, and the tool is executed once.
func TestResultsThatNoEventCanHoldAreMended(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	for name, details := range map[string]string{
		"no JSON": `{"a":`, "blank": " ", "nested too deep": deep, "no JSON at all, 600 KB": strings.Repeat("[", 600<<10),
		"two texts": `{} {}`,
	} {
		for _, effect := range []schemas.Effect{schemas.EffectReadOnly, schemas.EffectUnsafe} {
			t.Run(name+", "+string(effect), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				var executed atomic.Int32
				r.serve(func(ctx context.Context) error {
					return worker.Serve(ctx, r.client, tools.Tool{
						ToolDefinition: schemas.ToolDefinition{Name: "look", Effect: effect},
						Execute: func(context.Context, tools.Call) (schemas.ToolResult, error) {
							executed.Add(1)
							return schemas.ToolResult{Content: schemas.Contents{schemas.Text{Text: "found"}, nil},
								Details: json.RawMessage(details)}, nil
						}})
				})
				r.call("look", `{}`)
				got := r.result()
				if text := got.Result.Content.JoinText(); got.IsError || !strings.HasPrefix(text, "found") ||
					got.Result.Details != nil {
					t.Errorf("result %+v", got)
				}
				r.empty()
				if n := executed.Load(); n != 1 {
					t.Errorf("executed %d times", n)
				}
			})
		}
	}
}

// The session of a call that is given up gets a result that says so, once the dead letter is stored.
func TestACallThatIsGivenUpHasAResult(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	consumer, err := r.js.CreateConsumer(t.Context(), schemas.StreamTools, worker.Consumer(r.conn.Subjects(), "look", 0))
	if err != nil {
		t.Fatal(err)
	}
	r.call("look", `{}`)
	r.foreign("agent.tool.look.s1." + r.lastCall())
	for range 9 {
		calls, err := consumer.Fetch(2, jetstream.FetchMaxWait(deadline))
		if err != nil {
			t.Fatal(err)
		}
		for call := range calls.Messages() {
			if err := call.Nak(); err != nil {
				t.Fatal(err)
			}
		}
	}
	letters := r.subscribe("agent.dead.>")
	w, err := worker.New(worker.Options{ID: "w1", NC: r.client,
		Tools: []tools.Tool{{ToolDefinition: schemas.ToolDefinition{Name: "look", Effect: schemas.EffectReadOnly},
			Execute: func(context.Context, tools.Call) (schemas.ToolResult, error) {
				return schemas.TextResult("found"), nil
			}}},
		Trace: func(context.Context, schemas.ToolRequest) (context.Context, func(string)) { panic("no tracer") }})
	if err != nil {
		t.Fatal(err)
	}
	r.serve(w.Run)
	for range 2 {
		if letter := bustest.Within(t, letters); letter.Subject != "agent.dead.AGENT_TOOL.s1" {
			t.Errorf("letter at %s", letter.Subject)
		}
	}
	got := r.result()
	if text := got.Result.Content.JoinText(); !got.IsError || string(got.Call) != r.lastCall() ||
		!strings.Contains(text, "given up") {
		t.Errorf("result %+v", got)
	}
	r.empty()
	if len(r.results) > 0 {
		t.Error("the message of a server is answered")
	}
}

// foreign stores a message that no runner has sent in the queue of a tool.
func (r *rig) foreign(subject string) {
	r.t.Helper()
	if _, err := r.js.PublishMsg(r.t.Context(), &nats.Msg{Subject: subject, Data: []byte(`{"type":"x"}`)}); err != nil {
		r.t.Fatal(err)
	}
}
