//go:build unix

package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/integration/internal/cluster"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// replicated are the stream options of these tests.
var replicated = streams.Options{Replicas: 3}

// load is a set of busy sessions: each gets one prompt after the other, and answers with a tool call and a reply.
type load struct {
	*system.System
	tool     counted
	sessions []*speaker
}

// speaker sends prompts to one session.
type speaker struct {
	session string
	acked   []string // acknowledged texts
	count   atomic.Int64
}

func startLoad(t *testing.T, c *cluster.Cluster, sessions int) *load {
	t.Helper()
	l := &load{}
	l.System = system.Start(t, c.URL(), system.Options{
		Model: worker(t), Streams: replicated, Tools: toolsOf(&l.tool), SnapshotEvery: 16,
	})
	for i := range sessions {
		l.sessions = append(l.sessions, &speaker{session: fmt.Sprintf("s%d", i)})
	}
	return l
}

// worker is a model that calls a tool before each reply.
func worker(t *testing.T) driver.Model {
	t.Helper()
	model, err := scripted.NewScripts(scripted.Options{ChunkDelay: time.Millisecond},
		scripted.Script{Loop: true, Responses: []scripted.Response{
			scripted.Calls("One moment.", schemas.ToolCall{Name: "count", Arguments: json.RawMessage(`{}`)}),
			scripted.Text("Done."),
		}})
	if err != nil {
		t.Fatal(err)
	}
	return model
}

// counted is an unsafe tool that counts the executions of each call.
type counted struct{ runs sync.Map }

func (c *counted) tool() tools.Tool {
	return tools.Tool{
		ToolDefinition: schemas.ToolDefinition{Name: "count"},
		Execute: func(_ context.Context, call tools.Call) (schemas.ToolResult, error) {
			n, _ := c.runs.LoadOrStore(call.Session+"/"+string(call.Key), new(atomic.Int64))
			n.(*atomic.Int64).Add(1)
			return schemas.TextResult("counted"), nil
		},
	}
}

func toolsOf(c *counted) []tools.Tool { return []tools.Tool{c.tool()} }

// speak sends prompts to every session until stop is closed. It does not repeat a prompt that the client gave up.
func (l *load) speak(t *testing.T, stop <-chan struct{}) {
	var all sync.WaitGroup
	for _, s := range l.sessions {
		all.Go(func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				text := fmt.Sprintf("%s says %d", s.session, i)
				data := &schemas.FollowUp{Input: client.Text(text)}
				if _, err := l.Session(t, s.session).Send(t.Context(), data); err == nil {
					s.acked = append(s.acked, text)
					s.count.Add(1)
				}
			}
		})
	}
	all.Wait()
}

// underWay waits until more prompts of every session were acknowledged.
func (l *load) underWay(t *testing.T, more int64) {
	t.Helper()
	want := make([]int64, len(l.sessions))
	for i, s := range l.sessions {
		want[i] = s.count.Load() + more
	}
	for i, s := range l.sessions {
		system.Eventually(t, "session "+s.session+" is told more", func() bool { return s.count.Load() >= want[i] })
	}
}

// check waits until all acknowledged prompts were answered, and checks on every server that none is lost or doubled.
func (l *load) check(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	for _, s := range l.sessions {
		l.Until(t, s.session, "all that it was told", func() func(schemas.Event) bool {
			missing := slices.Clone(s.acked)
			return func(e schemas.Event) bool {
				for _, text := range system.Said([]schemas.Event{e}) {
					missing = slices.DeleteFunc(missing, func(m string) bool { return m == text })
				}
				return len(missing) == 0
			}
		}())
	}
	l.EmptyInbox(t)
	// If a dying leader loses an acknowledgement, the worker acknowledges the redelivered call.
	system.Eventually(t, "no tool call is left", func() bool { return l.Messages(t, schemas.StreamTools, "") == 0 })
	if n := l.Messages(t, schemas.StreamDead, ""); n != 0 {
		t.Errorf("%d dead letters", n)
	}
	for i := range c.Size() {
		store := storeOn(t, c.URLOf(i))
		for _, s := range l.sessions {
			l.checkLog(t, s, system.LogOf(t, store, s.session))
			system.Verify(t, store, s.session)
		}
	}
	l.tool.runs.Range(func(key, n any) bool {
		if n := n.(*atomic.Int64).Load(); n != 1 {
			t.Errorf("call %v ran %d times", key, n)
		}
		return true
	})
}

// checkLog checks that every acknowledged prompt is in the log once, in order, and that every call has one successful
// result. The result may also be an unknown outcome, for a call that was in flight to the worker when the worker's
// server was killed.
func (l *load) checkLog(t *testing.T, s *speaker, log []schemas.Event) {
	t.Helper()
	said := system.Said(log)
	var acked []string
	for _, text := range said {
		if slices.Contains(s.acked, text) {
			acked = append(acked, text)
		}
	}
	if !slices.Equal(acked, s.acked) {
		t.Errorf("session %s: acknowledged prompts %q, user messages %q", s.session, s.acked, said)
	}
	if rejected := system.DataOf[*schemas.CommandRejected](log); len(rejected) > 0 {
		t.Errorf("session %s: rejected %+v", s.session, rejected[0])
	}
	started, ended := system.DataOf[*schemas.ToolExecutionStart](log), system.DataOf[*schemas.ToolExecutionEnd](log)
	if len(started) != len(ended) || len(ended) == 0 {
		t.Errorf("session %s: %d calls, %d results", s.session, len(started), len(ended))
	}
	for _, end := range ended {
		if text := end.Result.Content.JoinText(); end.IsError && text != schemas.TextOutcomeUnknown {
			t.Errorf("session %s: call %s ended with %q", s.session, end.ToolCallID, text)
		}
	}
}

func storeOn(t *testing.T, url string) *eventstore.Store {
	t.Helper()
	store, err := eventstore.New(system.Connect(t, url, "reader").Events(), eventstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}
