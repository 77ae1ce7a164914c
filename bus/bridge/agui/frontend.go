package agui

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

const (
	maxFrontends   = 256              // threads whose clients' tools are announced
	maxTools       = 64               // of a thread
	frontendIdle   = 10 * time.Minute // after the last request, where no call waits
	announceWithin = 10 * time.Second
)

// channelOf is the workspace of the tools of a session's client.
func channelOf(session string) string {
	sum := sha256.Sum256([]byte(session))
	return "agui-" + hex.EncodeToString(sum[:12])
}

// frontends announces the tools of clients, and has their calls wait for what the clients answer.
type frontends struct {
	c   *client.Client
	log *slog.Logger

	mu     sync.Mutex
	closed bool
	all    map[string]*frontend // by session
	calls  map[string]*waiting  // by session and call
	ending sync.WaitGroup
}

// frontend is the worker of one session's client.
type frontend struct {
	tools string // what it announces, as JSON
	used  time.Time
	calls int // that wait
	stop  context.CancelFunc
	ready chan struct{} // closed when they are announced
}

// waiting is a call, or an answer that has come before it.
type waiting struct {
	answer inputMessage
	ready  chan struct{}
}

func newFrontends(c *client.Client, log *slog.Logger) *frontends {
	return &frontends{c: c, log: log, all: map[string]*frontend{}, calls: map[string]*waiting{}}
}

func (f *frontends) close() {
	f.mu.Lock()
	f.closed = true
	for _, one := range f.all {
		one.stop()
	}
	f.mu.Unlock()
	f.ending.Wait()
}

// serve announces the tools of a session's client and returns when they are. Tools that were announced before are left
// until other ones come.
func (f *frontends) serve(ctx context.Context, session string, list []frontendTool) error {
	if len(list) == 0 {
		return nil
	}
	if len(list) > maxTools {
		return &bridge.RequestError{Reason: fmt.Sprintf("more than %d tools", maxTools)}
	}
	described, err := json.Marshal(list)
	if err != nil {
		return &bridge.RequestError{Reason: "tools: " + err.Error()}
	}
	one, err := f.worker(session, string(described), list)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, announceWithin)
	defer cancel()
	select {
	case <-one.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("announce the tools of session %s: %w", session, ctx.Err())
	}
}

func (f *frontends) worker(session, described string, list []frontendTool) (*frontend, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Calls that wait keep their worker, whatever other tools the client brings meanwhile.
	if one := f.all[session]; one != nil && (one.tools == described || one.calls > 0) {
		one.used = time.Now()
		return one, nil
	}
	f.sweep()
	if f.closed || len(f.all) >= maxFrontends {
		return nil, fmt.Errorf("no room for the tools of session %s: %d threads have some", session, len(f.all))
	}
	one := &frontend{tools: described, used: time.Now(), ready: make(chan struct{})}
	o := worker.Options{ID: channelOf(session), NC: f.c.NATS(), Subjects: f.c.Subjects(), Workspace: channelOf(session),
		Concurrency: 16, StopTimeout: time.Nanosecond, Logger: f.log, Announced: func() { close(one.ready) }}
	for _, t := range list {
		o.Tools = append(o.Tools, tools.Tool{Execute: f.wait, ToolDefinition: schemas.ToolDefinition{
			Name: t.Name, Description: t.Description, Parameters: t.Parameters, Channel: true,
			Effect: schemas.EffectIdempotent}}) // to wait for an answer again does no harm
	}
	w, err := worker.New(o)
	if err != nil {
		return nil, &bridge.RequestError{Reason: "tools: " + err.Error()}
	}
	before := f.all[session]
	ctx, cancel := context.WithCancel(context.Background())
	one.stop = cancel
	f.all[session] = one
	if before != nil {
		before.stop()
	}
	f.ending.Go(func() {
		defer cancel()
		if err := w.Run(ctx); err != nil {
			f.log.Warn("tools of a client are not served any more", "session", session, "err", err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.all[session] == one {
			delete(f.all, session)
		}
	})
	return one, nil
}

// sweep withdraws the tools of clients that have been away for long. The caller has the lock.
func (f *frontends) sweep() {
	for session, one := range f.all {
		if one.calls == 0 && time.Since(one.used) > frontendIdle {
			one.stop()
			delete(f.all, session)
		}
	}
}

// wait is the execution of a call: it waits for the client's answer.
func (f *frontends) wait(ctx context.Context, call tools.Call) (schemas.ToolResult, error) {
	w := f.call(call.Session, call.Key, 1)
	defer f.over(call.Session, call.Key)
	select {
	case <-w.ready:
	case <-ctx.Done():
		return schemas.ToolResult{}, tools.Failure("the client that has this tool has not answered")
	}
	if w.answer.Error != "" {
		return schemas.ToolResult{}, tools.Failure(w.answer.Error)
	}
	c, err := w.answer.contents()
	if err != nil {
		return schemas.ToolResult{}, tools.Failure(err.Error())
	}
	return schemas.ToolResult{Content: c}, nil
}

func callName(session string, key schemas.CallKey) string { return session + "/" + string(key) }

// call returns a call by its name, of the first that comes.
func (f *frontends) call(session string, key schemas.CallKey, waits int) *waiting {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.all[session]; one != nil {
		one.calls += waits
		one.used = time.Now()
	}
	w := f.calls[callName(session, key)]
	if w == nil {
		w = &waiting{ready: make(chan struct{})}
		f.calls[callName(session, key)] = w
	}
	return w
}

func (f *frontends) over(session string, key schemas.CallKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.all[session]; one != nil {
		one.calls--
	}
	delete(f.calls, callName(session, key))
}

// answer hands a client's results to their calls. The first of a call counts.
func (f *frontends) answer(session string, results map[schemas.CallKey]inputMessage) {
	for key, m := range results {
		w := f.call(session, key, 0)
		f.mu.Lock()
		select {
		case <-w.ready:
		default:
			w.answer = m
			close(w.ready)
		}
		f.mu.Unlock()
	}
}
