//go:build unix

package chaos_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// How often sessions are deleted, in percent: those of clients, sub-agents as they begin, and sub-agents as they begin
// one of their own.
const (
	deletedRoots    = 10
	deletedChildren = 30
	deletedMiddles  = 50
)

const (
	deletionDelay = 700 * time.Millisecond // at most, after a sub-agent has begun
	deletionTry   = 20 * time.Second       // of one try
	// crashedSteps is how many percent of the steps of a deletion its deleter dies after, in its first try.
	crashedSteps = 8
)

// prey is a session that is to be deleted. args has its prompt, of a sub-agent.
type prey struct{ session, args string }

// deletions are of sessions with all that is under way in them, while chaos lasts.
type deletions struct {
	w      *world
	found  chan prey // those that have begun
	mu     sync.Mutex
	args   map[string]string // of calls that begin sub-agents, by session and call
	middle map[string]prey   // sub-agents by session
	prey   []prey            // that were deleted, or may have been
	done   map[string]time.Time
}

// watchPrey sees sub-agents begin, as viewers do.
func (w *world) watchPrey() *deletions {
	w.t.Helper()
	d := &deletions{w: w, found: make(chan prey, 1024), args: map[string]string{}, middle: map[string]prey{},
		done: map[string]time.Time{}}
	sub, err := w.conn.NATS().Subscribe(w.conn.Subjects().LiveEvent("*"), d.see)
	w.must(err)
	w.t.Cleanup(func() { _ = sub.Unsubscribe() })
	return d
}

func (d *deletions) see(m *nats.Msg) {
	session, _, err := schemas.Subjects{}.ParseLive(m.Subject)
	if err != nil {
		return
	}
	events, err := schemas.DecodeLog(session, m.Header, m.Data, nil)
	if err != nil {
		return // it is too long to be here
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range events {
		switch data := e.Data.(type) {
		case *schemas.ToolExecutionStart:
			if data.ToolName == schemas.ToolAgent {
				d.args[session+"/"+string(schemas.NewCallKey(e.Seq))] = string(data.Args)
			}
		case *schemas.SubagentStart:
			args, ok := d.args[session+"/"+string(data.Call)]
			if !ok {
				continue // what it may execute is not known
			}
			child := prey{data.Session, args}
			d.middle[data.Session] = child
			if mother, ok := d.middle[session]; ok && rand.IntN(100) < deletedMiddles {
				d.offer(mother)
			} else if rand.IntN(100) < deletedChildren {
				d.offer(child)
			}
		}
	}
}

func (d *deletions) offer(p prey) {
	select {
	case d.found <- p:
	default: // there are enough
	}
}

// run deletes until over is done, and finishes what it has begun, for which it has until the end of ctx.
func (d *deletions) run(ctx, over context.Context, length time.Duration) error {
	var g errgroup.Group
	begin := func(p prey, within time.Duration) {
		pause := time.Duration(rand.Int64N(int64(within)))
		g.Go(func() error {
			select {
			case <-time.After(pause):
				return d.delete(ctx, p)
			case <-over.Done():
				return nil
			}
		})
	}
	for i := range sessions {
		if rand.IntN(100) < deletedRoots {
			begin(prey{session: sessionName(i)}, length)
		}
	}
	for {
		select {
		case p := <-d.found:
			begin(p, deletionDelay)
		case <-over.Done():
			return g.Wait()
		}
	}
}

var errCrash = errors.New("the deleter dies here")

// delete deletes a session through a client's connections, and is retried until it is said to be gone. In the first
// try the deleter may die after a step.
func (d *deletions) delete(ctx context.Context, p prey) error {
	d.mu.Lock()
	d.prey = append(d.prey, p)
	d.mu.Unlock()
	conn := d.w.clients[rand.IntN(len(d.w.clients))].conn
	store, err := eventstore.New(conn.Events(), eventstore.Options{})
	if err != nil {
		return err
	}
	dies := func(string) error {
		if rand.IntN(100) < crashedSteps {
			return errCrash
		}
		return nil
	}
	for {
		o := retention.Options{Store: store, AbortWait: 300 * time.Millisecond, AfterStep: dies}
		once, cancel := context.WithTimeout(ctx, deletionTry)
		_, err := retention.NewDeleter(conn, o).Delete(once, retention.Request{Session: p.session, Force: true})
		cancel()
		if err == nil || errors.Is(err, retention.ErrNoSession) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.done[p.session] = time.Now()
			return nil
		}
		dies = nil
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return err
		}
	}
}

// ended says when the deletion of a session had ended last.
func (d *deletions) ended() map[string]time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.done)
}

// forgotten reports whether a deleted session may have asked for executions that are counted under a key: for its own
// calls, or for those that its prompt had the key of.
func (d *deletions) forgotten(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.prey {
		if strings.HasPrefix(key, p.session+"/") || strings.HasPrefix(key, p.session+"-") || strings.Contains(p.args, key) {
			return true
		}
	}
	return false
}

// missLost has the runners look after the sub-agents that sessions at rest wait for, until none waits: those that were
// deleted will never answer. It is what a timer does every quarter of an hour.
func (w *world) missLost(ctx context.Context) {
	w.t.Helper()
	const again = 5 // looks; a runner that is busy with the session does nothing
	ctx, cancel := context.WithTimeout(ctx, restBound)
	defer cancel()
	timers, tick := bus.NewTimers(w.conn), time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 0; ; n++ {
		w.awaitRest(ctx)
		waiting := w.waiting(ctx)
		if len(waiting) == 0 {
			return
		}
		if n%again == 0 {
			w.t.Logf("these wait for sub-agents: %v", waiting)
			for _, session := range waiting {
				w.must(timers.Schedule(ctx, session, time.Now(), schemas.Timer{Name: schemas.TimerSubagents}))
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return // the check says what waits
		}
	}
}

// waiting are the sessions that wait for sub-agents, as their logs say.
func (w *world) waiting(ctx context.Context) (waiting []string) {
	w.t.Helper()
	for info, err := range w.store.Sessions(ctx) {
		w.must(err)
		state := &loop.State{Session: info.Session}
		for e, err := range w.store.Read(ctx, info.Session, 1) {
			if err == nil {
				err = state.Apply(e)
			}
			if err != nil {
				break // the check says it
			}
		}
		if len(state.Children) > 0 {
			waiting = append(waiting, info.Session)
		}
	}
	return waiting
}
