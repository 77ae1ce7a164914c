package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/bus/registry"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/driver/drivertest"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/rehearsal"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/extension"
	"github.com/loopbus/loopbus/tools/pipeline"
)

// spending is a model whose replies have a usage.
type spending struct {
	driver.Model
	usage schemas.Usage // of each reply, unless it is zero
}

func (s *spending) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		for e, err := range s.Model.Stream(ctx, req) {
			if e.Terminal() && s.usage != (schemas.Usage{}) {
				e.Message.Usage = s.usage
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// rig is a system with all features of a runner, and a connection for services and clients.
type rig struct {
	*system.System
	t     *testing.T
	conn  *bus.Conn
	model *spending
	asked *drivertest.Recorder // of the model

	mu  sync.Mutex
	ran []string // arguments with which the tool "note" was executed
}

// start starts a system with the tools echo and note, which records its arguments. change modifies the host's options.
func start(t *testing.T, change func(h *host.Options)) *rig {
	t.Helper()
	server := system.StartServer(t, false)
	r := &rig{t: t, conn: system.Connect(t, server.ClientURL(), "services"), model: &spending{Model: &rehearsal.Model{}}}
	r.asked = &drivertest.Recorder{Model: r.model}
	profiles := registry.NewProfiles(r.conn, host.ErrNoProfile, nil)
	t.Cleanup(profiles.Close)
	extensions, err := extension.Tools(system.Client(t, r.conn))
	if err != nil {
		t.Fatal(err)
	}
	r.System = system.Start(t, server.ClientURL(), system.Options{
		Model: r.asked, Tools: append(extensions, r.note("note", ""), r.note("careful", "notes:write")),
		Host: func(h *host.Options) {
			h.Services, h.Profiles, h.Budgets, h.Pipeline = bus.NewHooks(r.conn), profiles, bus.NewBudgets(r.conn),
				pipeline.Build
			h.Policy.Extensions = schemas.ExtensionTools()
			if change != nil {
				change(h)
			}
		},
	})
	return r
}

// note returns an unsafe tool that requires a scope, if one is named.
func (r *rig) note(name, scope string) tools.Tool {
	def := schemas.ToolDefinition{Name: name}
	if scope != "" {
		def.Scopes = []string{scope}
	}
	return tools.Tool{ToolDefinition: def, Execute: func(_ context.Context, c tools.Call) (schemas.ToolResult, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ran = append(r.ran, string(c.Arguments))
		return schemas.TextResult("noted " + string(c.Arguments)), nil
	}}
}

// executed returns the arguments with which tools were executed.
func (r *rig) executed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.ran, " ")
}

// service answers requests of a hook until the test ends. If the answer is nil, it does not answer.
func (r *rig) service(ref schemas.HookRef, f func(req schemas.HookRequest) *schemas.HookAnswer) {
	r.t.Helper()
	sub, err := r.conn.NATS().Subscribe(r.conn.Subjects().Hook(ref), func(m *nats.Msg) {
		req, err := schemas.ParseHookRequest(m.Data)
		if err != nil {
			r.t.Errorf("request at %s: %v", m.Subject, err)
		}
		a := f(req)
		if a == nil {
			return
		}
		data, err := schemas.Marshal(*a)
		if err != nil {
			r.t.Error(err)
		}
		_ = m.Respond(data)
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = sub.Unsubscribe() })
	if err := r.conn.NATS().Flush(); err != nil {
		r.t.Fatal(err)
	}
}

// profile stores a profile in the bucket.
func (r *rig) profile(name string, p schemas.Profile) {
	r.t.Helper()
	kv, err := r.conn.JetStream().KeyValue(r.t.Context(), schemas.BucketProfiles)
	if err != nil {
		r.t.Fatal(err)
	}
	data, err := schemas.Marshal(p)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := kv.Put(r.t.Context(), name, data); err != nil {
		r.t.Fatal(err)
	}
}

// follow makes a session follow a profile, once the runner has the profile.
func (r *rig) follow(session, profile string) {
	r.t.Helper()
	system.Eventually(r.t, "session "+session+" follows profile "+profile, func() bool {
		err := r.Session(r.t, session).Set(r.t.Context(), &schemas.SetProfile{Profile: profile})
		if rejected := (*client.RejectedError)(nil); err != nil && !errors.As(err, &rejected) {
			r.t.Fatal(err)
		}
		return err == nil
	})
}

// results returns the texts of the tool results in a log.
func results(log []schemas.Event) (texts []string) {
	for _, end := range system.DataOf[*schemas.ToolExecutionEnd](log) {
		texts = append(texts, end.Result.Content.JoinText())
	}
	return texts
}

// decisions returns the decisions of one hook in a log.
func decisions(log []schemas.Event, hook schemas.HookName) (list []*schemas.HookDecision) {
	for _, d := range system.DataOf[*schemas.HookDecision](log) {
		if d.Hook == hook {
			list = append(list, d)
		}
	}
	return list
}

func userText(text string) schemas.Messages {
	return schemas.Messages{&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: text}}, Timestamp: 1}}
}

func raw(v any) json.RawMessage {
	data, err := schemas.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

func ptr[T any](v T) *T { return &v }

func busInbox(id string) inbox.Options { return inbox.Options{RunnerID: id} }
