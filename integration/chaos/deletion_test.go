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

// How often sessions are deleted, in percent: sessions of clients, sub-agents when they start, and sub-agents when they
// start a sub-agent of their own.
const (
	deletedRoots    = 10
	deletedChildren = 30
	deletedMiddles  = 50
)

const (
	deletionDelay = 700 * time.Millisecond // at most, after the start of the sub-agent
	// The first try has a short timeout, because it waits in vain for an answer of a killed server. Each further try has
	// twice as much, up to the longest.
	deletionTry, longestDeletionTry = 3 * time.Second, 24 * time.Second
	// crashedSteps is the probability, in percent, that a deleter crashes after a step of its first try.
	crashedSteps = 8
)

// target is a session to delete. args are the arguments of the call that started it, if it is a sub-agent: they contain
// its prompt.
type target struct{ session, args string }

// deletions deletes sessions, busy or not, while faults are injected.
type deletions struct {
	w      *world
	found  chan target // sessions that have started
	mu     sync.Mutex
	args   map[string]string // of calls that start sub-agents, by session and call
	middle map[string]target // sub-agents by session
	begun  []target          // whose deletion has begun
	done   map[string]time.Time
}

// watchDeletable returns deletions that learn of new sub-agents from live events.
func (w *world) watchDeletable() *deletions {
	w.t.Helper()
	d := &deletions{w: w, found: make(chan target, 1024), args: map[string]string{}, middle: map[string]target{},
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
		return // its data is in an object, not in the message
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
				continue // its prompt, and so the keys of its executions, is unknown
			}
			child := target{data.Session, args}
			d.middle[data.Session] = child
			if mother, ok := d.middle[session]; ok && rand.IntN(100) < deletedMiddles {
				d.offer(mother)
			} else if rand.IntN(100) < deletedChildren {
				d.offer(child)
			}
		}
	}
}

func (d *deletions) offer(p target) {
	select {
	case d.found <- p:
	default: // enough sessions wait to be deleted
	}
}

// run deletes sessions until over is done. It completes the deletions that have begun; ctx bounds that.
func (d *deletions) run(ctx, over context.Context, length time.Duration) error {
	var g errgroup.Group
	begin := func(p target, within time.Duration) {
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
			begin(target{session: sessionName(i)}, length)
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

var errCrash = errors.New("crash of the deleter")

// delete deletes a session through the connection of a client, and tries again until the deletion has succeeded. In the
// first try the deleter may crash after any step.
func (d *deletions) delete(ctx context.Context, p target) error {
	d.mu.Lock()
	d.begun = append(d.begun, p)
	d.mu.Unlock()
	conn := d.w.clients[rand.IntN(len(d.w.clients))].conn
	store, err := eventstore.New(conn.Events(), eventstore.Options{})
	if err != nil {
		return err
	}
	crash := func(string) error {
		if rand.IntN(100) < crashedSteps {
			return errCrash
		}
		return nil
	}
	for timeout := deletionTry; ; timeout = min(2*timeout, longestDeletionTry) {
		o := retention.Options{Store: store, AbortWait: 300 * time.Millisecond, AfterStep: crash}
		once, cancel := context.WithTimeout(ctx, timeout)
		_, err := retention.NewDeleter(conn, o).Delete(once, retention.Request{Session: p.session, Force: true})
		cancel()
		if err == nil || errors.Is(err, retention.ErrNoSession) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.done[p.session] = time.Now()
			return nil
		}
		crash = nil
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return err
		}
	}
}

// ended returns for each deleted session when its last deletion completed.
func (d *deletions) ended() map[string]time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.done)
}

// forgotten reports whether a deleted session may have caused the executions with this key: by its own calls, or by
// calls whose key was in its prompt.
func (d *deletions) forgotten(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.begun {
		if strings.HasPrefix(key, p.session+"/") || strings.HasPrefix(key, p.session+"-") || strings.Contains(p.args, key) {
			return true
		}
	}
	return false
}

// resolveLost sends timers that make the runners check the sub-agents of sessions at rest, until no session waits for
// one: a deleted sub-agent never answers. In production a timer does this every quarter of an hour.
func (w *world) resolveLost(ctx context.Context) {
	w.t.Helper()
	const again = 5 // checks between two timers: a runner that is busy with the session ignores its timer
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
			w.t.Logf("sessions that wait for sub-agents: %v", waiting)
			for _, session := range waiting {
				w.must(timers.Schedule(ctx, session, time.Now(), schemas.Timer{Name: schemas.TimerSubagents}))
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return // history.Check reports the sessions that wait
		}
	}
}

// waiting returns the sessions whose logs have unfinished sub-agents.
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
				break // readLogs reports it
			}
		}
		if len(state.Children) > 0 {
			waiting = append(waiting, info.Session)
		}
	}
	return waiting
}
