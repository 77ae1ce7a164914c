package driver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// counters count what a profile uses. Add reports that it was called and waits until the test releases it.
type counters struct {
	adding, free chan struct{}

	mu    sync.Mutex
	added []string
	ids   []string
	seen  map[string]bool
	used  int64
	asks  []int64 // what was used at each call of Spent
}

func newCounters() *counters {
	return &counters{adding: make(chan struct{}, 10), free: make(chan struct{}), seen: map[string]bool{}}
}

func (c *counters) Add(ctx context.Context, profile, id string, at time.Time, u schemas.Usage) error {
	c.adding <- struct{}{}
	select {
	case <-c.free:
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids = append(c.ids, id)
	id = fmt.Sprintf("%s %s %s", profile, id, at.UTC().Format(time.RFC3339Nano))
	c.added = append(c.added, id)
	if !c.seen[id] {
		c.seen[id] = true
		c.used += u.TotalTokens
	}
	return nil
}

func (c *counters) Spent(context.Context, string, schemas.BudgetPeriod, time.Time) (int64, float64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asks = append(c.asks, c.used)
	return c.used, 0, nil
}

// team gives the session a profile with a budget.
func team(c *counters) func(*host.Options) {
	return func(o *host.Options) {
		o.Budgets, o.Profile = c, "team"
		o.Profiles = profileFunc(func() schemas.Profile {
			return schemas.Profile{Budget: &schemas.ProfileBudget{MaxTokens: 1000}}
		})
	}
}

// using is a model whose replies use ten tokens.
func using(m looptest.ModelFunc, at time.Time) looptest.ModelFunc {
	return func(ctx context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		reply, err := m(ctx, req)
		if err == nil {
			reply.Usage.TotalTokens, reply.Timestamp = 10, at.UnixMilli()
		}
		return reply, err
	}
}

// events reports the types of the events that are appended.
func storing(types chan<- schemas.EventType) func(*host.Options) {
	return func(o *host.Options) { o.OnEvent = func(e schemas.Event, _ *loop.State) { types <- e.Type() } }
}

func await(t *testing.T, types <-chan schemas.EventType, want schemas.EventType) {
	t.Helper()
	for {
		select {
		case got := <-types:
			if got == want {
				return
			}
		case <-time.After(time.Minute):
			t.Fatalf("no %s", want)
		}
	}
}

// TestAReplyDoesNotWaitForItsCount delays the count: the run continues to the next check of the budget or to its end;
// these, and the end of the delivery, wait.
func TestAReplyDoesNotWaitForItsCount(t *testing.T) {
	t.Parallel()
	c, types := newCounters(), make(chan schemas.EventType, 100)
	at := time.Now()
	r := looptest.New(t, using(looptest.ToolThenDone("t1"), at), team(c), storing(types))
	first := make(chan error, 1)
	go func() { first <- r.Host.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil) }()
	await(t, types, schemas.EventToolExecutionStart)
	<-r.Tools.Came
	<-c.adding
	select {
	case err := <-first:
		t.Errorf("the delivery has ended before the reply was counted: %v", err)
	default:
	}
	second := make(chan error, 1)
	req := r.Tools.Take(t)
	id, result := looptest.AnswerTo(req, "ok")
	go func() { second <- r.Host.Deliver(t.Context(), looptest.Command(id, result), nil) }()
	await(t, types, schemas.EventTurnEnd)
	c.free <- struct{}{}
	await(t, types, schemas.EventTurnEnd)
	<-c.adding
	if err := <-first; err != nil {
		t.Error(err)
	}
	if n := r.Count(schemas.EventAgentEnd); n != 0 {
		t.Error("the run has ended before its reply was counted")
	}
	select {
	case err := <-second:
		t.Errorf("the delivery has ended before the reply was counted: %v", err)
	default:
	}
	close(c.free)
	if err := <-second; err != nil {
		t.Error(err)
	}
	if want := []int64{0, 10}; !slices.Equal(c.asks, want) || c.used != 20 {
		t.Errorf("used when asked: %v, want %v; in the end %d", c.asks, want, c.used)
	}
}

// TestTheNextProcessCountsAReplyAgain kills the process between a reply's message_end and its count. The next one
// counts the reply once, under the same id and time.
func TestTheNextProcessCountsAReplyAgain(t *testing.T) {
	t.Parallel()
	for name, age := range map[string]time.Duration{"just now": 0, "an hour ago": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := time.Now().Add(-age).Truncate(time.Millisecond)
			hi := looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
				return looptest.Say("hi"), nil
			})
			lost, types := newCounters(), make(chan schemas.EventType, 100)
			r := looptest.New(t, using(hi, at), team(lost), storing(types))
			ctx, die := context.WithCancel(t.Context())
			first := make(chan error, 1)
			go func() { first <- r.Host.Deliver(ctx, looptest.Command("p1", looptest.Prompt("go")), nil) }()
			await(t, types, schemas.EventTurnEnd)
			die()
			if err := <-first; err == nil {
				t.Error("the delivery ends well with a reply that is not counted")
			}
			close(lost.free)

			c := newCounters()
			close(c.free)
			r.Host = r.NewHost(using(hi, at), team(c))
			r.Deliver("p1", looptest.Prompt("go"))
			r.Deliver("p1", looptest.Prompt("go"))
			want := []string{fmt.Sprintf("team s1/%s/%d ", replyID(r), at.UnixMilli()) + at.UTC().Format(time.RFC3339Nano)}
			if age > 0 {
				want = nil
			}
			if !slices.Equal(c.added, want) {
				t.Errorf("added %v, want %v", c.added, want)
			}
		})
	}
}

// A reply whose time is wrong is counted for the period in which it is stored.
func TestAReplyOfAnotherDayIsCountedToday(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{-30 * time.Hour, 30 * time.Hour} {
		c := newCounters()
		close(c.free)
		began := time.Now()
		hi := looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
			return looptest.Say("hi"), nil
		})
		r := looptest.New(t, using(hi, began.Add(off)), team(c))
		r.Deliver("p1", looptest.Prompt("go"))
		if len(c.added) != 1 {
			t.Fatalf("%s: added %v", off, c.added)
		}
		at, err := time.Parse(time.RFC3339Nano, c.added[0][strings.LastIndexByte(c.added[0], ' ')+1:])
		if err != nil || at.Before(began.Add(-time.Minute)) || at.After(time.Now().Add(time.Minute)) {
			t.Errorf("%s: counted at %s, %v", off, at, err)
		}
	}
}

// replyID returns the id of the newest reply in the log.
func replyID(r *looptest.Rig) (id string) {
	r.T.Helper()
	for _, e := range r.Events() {
		if end, ok := e.Data.(*schemas.MessageEnd); ok && end.Message.Message.MessageRole() == schemas.RoleAssistant {
			id = end.MessageID
		}
	}
	return id
}

// TestAFailedReplyIsCountedBeforeItIsStored: a retry removes it from the transcript, where recount would look for it.
func TestAFailedReplyIsCountedBeforeItIsStored(t *testing.T) {
	t.Parallel()
	c, types := newCounters(), make(chan schemas.EventType, 100)
	fails := looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		return &schemas.AssistantMessage{StopReason: schemas.StopError, ErrorMessage: "overloaded"}, nil
	})
	r := looptest.New(t, using(fails, time.Now()), team(c), storing(types))
	done := make(chan error, 1)
	go func() { done <- r.Host.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil) }()
	<-c.adding
	if n := r.Count(schemas.EventMessageEnd); n != 1 {
		t.Errorf("%d messages are stored, want the prompt alone", n)
	}
	close(c.free)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if c.used != 10 {
		t.Errorf("%d tokens were counted, want 10", c.used)
	}
}
