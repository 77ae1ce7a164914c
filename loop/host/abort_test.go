package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/priority"
)

// crowded has one session, "other", at a model that does not answer, and no room for s1, whose call a worker has.
type crowded struct {
	*looptest.Rig
	answer     chan struct{} // ends the reply to "other"
	requests   []string      // the sessions whose model was asked
	replies    map[string]*schemas.AssistantMessage
	delivering sync.WaitGroup
	ended      func(session string) // called at the end of each run
}

// newCrowded has the vendor say that the context of s1 has so many tokens. From 200,000 it is to be compacted.
func newCrowded(t *testing.T, tokens int64) *crowded {
	first := looptest.CallTool("c1")
	first.Usage.TotalTokens = tokens
	c := &crowded{answer: make(chan struct{}), replies: map[string]*schemas.AssistantMessage{"s1": first}}
	model := looptest.ModelFunc(func(ctx context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		c.requests = append(c.requests, req.SessionID)
		if reply := c.replies[req.SessionID]; reply != nil {
			return reply, nil
		}
		select {
		case <-c.answer:
			return looptest.Say("done"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	c.Rig = looptest.New(t, model, func(o *host.Options) {
		o.WorkBytes = 4 * 700 << 10
		o.OnEvent = func(e schemas.Event, _ *loop.State) {
			if e.Type() == schemas.EventAgentEnd && c.ended != nil {
				c.ended(e.Session)
			}
		}
		o.Defaults.Compaction = schemas.CompactionPolicy{Enabled: true, ReserveTokens: 100, KeepRecentTokens: 1}
		o.Window = func(schemas.ModelRef) int64 { return 200_000 }
	})
	c.deliver("s1", "prompt", looptest.Prompt(strings.Repeat("x", 400<<10)))
	c.deliver("other", "prompt", looptest.Prompt(strings.Repeat("x", 500<<10)))
	return c
}

// deliver begins a delivery, which is repeated as by the inbox, and goes on until nothing moves any more.
func (c *crowded) deliver(session, id string, data schemas.CommandData) {
	c.delivering.Go(func() {
		cmd := looptest.Command(id, data)
		cmd.Session = session
		err := c.Host.Deliver(c.T.Context(), cmd, nil)
		for errors.Is(err, schemas.ErrLater) || errors.Is(err, context.Canceled) {
			err = c.Host.Deliver(c.T.Context(), cmd, nil)
		}
		if err != nil {
			c.T.Errorf("%s to %s: %v", id, session, err)
		}
	})
	synctest.Wait()
}

// end ends the reply to "other" and checks which models were asked in all.
func (c *crowded) end(requests string) {
	c.T.Helper()
	close(c.answer)
	c.delivering.Wait()
	if have := strings.Join(c.requests, " "); have != requests {
		c.T.Errorf("models were asked for %s, want %s", have, requests)
	}
}

// The abort of a session that has no room to go on does not wait for the models of others.
func TestAbortsWaitForNoRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowded(t, 0)
		call := c.Tools.Take(t)
		c.deliver("s1", "abort", &schemas.Abort{})
		if len(c.Tools.Cancelled) != 1 {
			t.Errorf("%d calls were cancelled, want that of the session", len(c.Tools.Cancelled))
		}
		id, result := looptest.AnswerTo(call, "cancelled")
		c.deliver("s1", id, result)
		c.WantEnd(schemas.EndAbort)
		c.end("s1 other")
	})
}

// Sessions that wait for their cancelled tools do not keep the aborts of others from beginning.
func TestAbortsWaitForNoGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowded(t, 0) // the room for aborts has one session at a time
		sessions := []string{"s1", "s2", "s3", "s4"}
		for _, session := range sessions[1:] {
			c.replies[session] = looptest.CallTool("c1")
			c.deliver(session, "prompt", looptest.Prompt("go"))
			c.deliver(session, "steer", &schemas.Steer{Input: schemas.Input{Text: strings.Repeat("x", 400<<10)}})
		}
		ended, began := map[string]time.Duration{}, time.Now()
		c.ended = func(session string) { ended[session] = time.Since(began) }
		for _, session := range sessions {
			c.deliver(session, "abort", &schemas.Abort{})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		took := slices.Sorted(maps.Values(ended))
		if n := len(took); n != len(sessions) || took[n-2] > time.Second {
			t.Errorf("the runs ended after %v", took)
		} else if last := took[n-1]; last < 10*time.Second || last > 11*time.Second { // nobody waits any more
			t.Errorf("the last run ended after %v", last)
		}
		c.end("s1 other s2 s3 s4")
	})
}

// What a session without room has received before it is aborted does not go before its abort.
func TestWaitingDeliveriesFollowTheAbort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowded(t, 0)
		id, result := looptest.AnswerTo(c.Tools.Take(t), "done")
		c.deliver("s1", id, result)
		if n := c.Count(schemas.EventToolExecutionEnd); n > 0 {
			t.Error("the result did not wait")
		}
		c.deliver("s1", "abort", &schemas.Abort{})
		c.WantEnd(schemas.EndAbort)
		c.end("s1 other")
	})
}

// A command that an abort waits behind is stored without waiting for room, and is carried out after the abort, once
// there is room: it is not lost, nor does it go before.
func TestWhatAnAbortWaitsBehindIsStoredFirst(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]schemas.CommandData{
		"steer":    &schemas.Steer{Input: schemas.Input{Text: "steer"}},
		"followUp": &schemas.FollowUp{Input: schemas.Input{Text: "follow"}},
		"large":    &schemas.Steer{Input: schemas.Input{Text: strings.Repeat("x", 100<<10)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCrowded(t, 0)
				call := c.Tools.Take(t)
				behind, entered := make(chan struct{}), 0
				cmd := looptest.Command("waits", data)
				c.delivering.Go(func() {
					ctx := priority.Inherit(t.Context(), behind)
					if name == "large" {
						held, release, err := c.Host.Hold(ctx, "s1", func() {})
						if err != nil {
							t.Error(err)
							return
						}
						defer release()
						ctx = held
					}
					if err := c.Host.Deliver(ctx, cmd, func() { entered++ }); !errors.Is(err, schemas.ErrLater) {
						t.Errorf("got %v, want an error for later", err)
					}
				})
				if synctest.Wait(); entered != 0 {
					t.Error("the command did not wait")
				}
				close(behind)
				if synctest.Wait(); entered != 1 || c.Count(schemas.EventAgentEnd) != 0 {
					t.Fatalf("the command was stored %d times, want once and nothing else", entered)
				}
				c.deliver("s1", "abort", &schemas.Abort{})
				id, result := looptest.AnswerTo(call, "cancelled")
				c.deliver("s1", id, result)
				c.WantEnd(schemas.EndAbort)
				c.deliver("s1", "waits", data)
				c.end("s1 other")
				var accepted []string
				for _, e := range c.Events() {
					if d, ok := e.Data.(*schemas.CommandAccepted); ok {
						accepted = append(accepted, d.CommandID)
					}
				}
				if want := []string{"prompt", "waits", "abort"}; !slices.Equal(accepted, want) {
					t.Errorf("accepted %v, want %v", accepted, want)
				}
			})
		})
	}
}

// A session that has more to do than to be aborted waits again: another run, or the compaction before it, whose summary
// is a call of a model, too.
func TestAnAbortedSessionWaitsAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tokens   int64
		requests string
	}{
		"for a run":        {0, "s1 other s1"},
		"for a compaction": {1_000_000, "s1 other s1 s1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newCrowded(t, c.tokens)
				id, result := looptest.AnswerTo(r.Tools.Take(t), "done")
				r.replies["s1"] = looptest.Say("done")
				r.deliver("s1", "abort", &schemas.Abort{})
				r.deliver("s1", "next", looptest.Prompt("next"))
				r.deliver("s1", id, result)
				if begun, ended := r.Count(schemas.EventAgentStart), r.Count(schemas.EventAgentEnd); begun != 1 || ended != 1 {
					t.Errorf("%d runs began and %d ended, want the aborted one", begun, ended)
				}
				r.end(c.requests)
			})
		})
	}
}

// A reply may be larger than all that the session had: it takes room before its calls begin.
func TestLargeCallsTakeRoomBeforeTheyBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowded(t, 0)
		c.Tools.TakeAll()
		large := looptest.CallTool("c2")
		call := large.Content[0].(schemas.ToolCall)
		call.Arguments = json.RawMessage(`{"v":"` + strings.Repeat("x", 250<<10) + `"}`)
		large.Content[0], c.replies["third"] = call, large
		c.deliver("third", "prompt", looptest.Prompt("small"))
		if n := len(c.Tools.TakeAll()); n > 0 {
			t.Errorf("%d calls were dispatched, although there is no room", n)
		}
		c.end("s1 other third")
		if n := len(c.Tools.TakeAll()); n != 1 {
			t.Errorf("%d calls were dispatched once there is room", n)
		}
	})
}
