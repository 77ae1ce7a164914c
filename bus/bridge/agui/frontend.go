package agui

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/turns"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

const (
	maxFrontends   = 256              // threads whose client tools are announced at once
	maxTools       = 64               // per thread
	maxDefinitions = 256 << 10        // bytes of the tools of a thread, which are kept while they are announced
	maxAllTools    = 2048             // of all threads: each has a queue, of which the bus has 10,000
	frontendIdle   = 10 * time.Minute // after the last request, if no call waits
	announceWithin = 10 * time.Second
)

// channelPrefix begins the names of a session's channels. Another session, even a copy, has another prefix.
func channelPrefix(session string) string {
	sum := sha256.Sum256([]byte(session))
	return "agui-" + hex.EncodeToString(sum[:8]) + "-"
}

// channelOf returns the workspace of the tools of a session's client: the one that the session is bound to, so that
// calls find their client after a restart, or a new one. It cannot be guessed, because knowing a channel suffices to
// have its tools described to a session.
func channelOf(session string, bound string) string {
	if isChannel(session, bound) {
		return bound
	}
	return channelPrefix(session) + rand.Text()
}

// isChannel reports whether a workspace is a channel of a session's client.
func isChannel(session, workspace string) bool {
	secret, ok := strings.CutPrefix(workspace, channelPrefix(session))
	return ok && len(secret) >= len(rand.Text())
}

// frontends announces the tools of clients, and lets their calls wait for the clients' answers.
type frontends struct {
	c   *client.Client
	log *slog.Logger

	mu     sync.Mutex
	closed bool
	all    map[string]*frontend // by session
	calls  map[string]*waiting  // by session and call
	ending sync.WaitGroup
	making *turns.Turns[struct{}] // of workers
}

// frontend is the worker for one session's client.
type frontend struct {
	channel string
	tools   string // what it announces, as JSON
	count   int    // of tools
	used    time.Time
	calls   int // number of waiting calls
	stop    context.CancelFunc
	ready   chan struct{} // closed when the tools are announced
}

func newFrontends(c *client.Client, log *slog.Logger) *frontends {
	return &frontends{c: c, log: log, all: map[string]*frontend{}, calls: map[string]*waiting{},
		making: turns.New[struct{}](1)}
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

// serve announces the tools of a session's client and returns their channel once they are announced. Earlier tools
// stay until different ones arrive. bound is the channel that the session is bound to.
func (f *frontends) serve(ctx context.Context, session, bound string, list []frontendTool) (channel string, err error) {
	if len(list) == 0 {
		return "", nil
	}
	if len(list) > maxTools {
		return "", &bridge.RequestError{Reason: fmt.Sprintf("more than %d tools", maxTools)}
	}
	described, err := json.Marshal(list)
	if err != nil {
		return "", &bridge.RequestError{Reason: "tools: " + err.Error()}
	}
	if len(described) > maxDefinitions {
		return "", &bridge.RequestError{Reason: fmt.Sprintf("the tools have more than %d bytes", maxDefinitions)}
	}
	one, err := f.worker(ctx, session, bound, string(described), list)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, announceWithin)
	defer cancel()
	select {
	case <-one.ready:
		return one.channel, nil
	case <-ctx.Done():
		return "", fmt.Errorf("announce the tools of session %s: %w", session, ctx.Err())
	}
}

// worker returns the worker for the tools of a session's client, and starts it if there is none. Tools are checked
// when a worker is made, which may take seconds: one at a time is, and nobody else waits for it.
func (f *frontends) worker(ctx context.Context, session, bound, described string, list []frontendTool,
) (*frontend, error) {
	for {
		one, before, err := f.started(session, described, len(list))
		if one != nil || err != nil {
			return one, err
		}
		if before != nil {
			bound = before.channel
		}
		one = &frontend{tools: described, count: len(list), used: time.Now(), ready: make(chan struct{})}
		one.channel = channelOf(session, bound)
		endTurn, err := f.making.Wait(ctx, struct{}{}, 1)
		if err != nil {
			return nil, fmt.Errorf("announce the tools of session %s: %w", session, err)
		}
		w, err := worker.New(worker.Options{ID: one.channel, NC: f.c.NATS(), Subjects: f.c.Subjects(), Workspace: one.channel,
			Concurrency: 16, StopTimeout: time.Nanosecond, Logger: f.log, Announced: func() { close(one.ready) },
			Tools: f.tools(session, list)})
		endTurn()
		if err != nil {
			return nil, &bridge.RequestError{Reason: "tools: " + err.Error()}
		}
		if f.start(session, one, before, w) {
			return one, nil
		}
	}
}

// started returns the worker that a session's client has for these tools, or the worker that a new one is to replace,
// or an error if there is no room for a new one.
func (f *frontends) started(session, described string, count int) (one, before *frontend, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Waiting calls keep their worker, even if the client brings different tools in the meantime.
	if one := f.all[session]; one != nil && (one.tools == described || one.calls > 0) {
		one.used = time.Now()
		return one, nil, nil
	}
	f.sweep()
	before = f.all[session]
	if err := f.room(before, count); err != nil {
		return nil, nil, fmt.Errorf("announce the tools of session %s: %w", session, err)
	}
	return nil, before, nil
}

// start starts a worker in place of the one before. It returns false if that is not the session's any more, or has got
// a call, or if there is no more room.
func (f *frontends) start(session string, one, before *frontend, w *worker.Worker) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all[session] != before || before != nil && before.calls > 0 || f.room(before, one.count) != nil {
		return false
	}
	ctx, cancel := context.WithCancel(context.Background())
	one.stop = cancel
	f.all[session] = one
	if before != nil {
		before.stop()
	}
	f.ending.Go(func() {
		defer cancel()
		if err := w.Run(ctx); err != nil {
			f.log.Warn("stopped serving the tools of a client", "session", session, "err", err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.all[session] == one {
			delete(f.all, session)
		}
	})
	return true
}

// room returns an error if no client may announce so many tools in place of those that it has announced before. The
// caller holds the lock.
func (f *frontends) room(before *frontend, count int) error {
	if before != nil {
		count -= before.count
	}
	for _, one := range f.all {
		count += one.count
	}
	switch {
	case f.closed:
		return errors.New("the bridge is closed")
	case before == nil && len(f.all) >= maxFrontends:
		return fmt.Errorf("the limit of %d threads with tools is reached", maxFrontends)
	case count > maxAllTools:
		return fmt.Errorf("the limit of %d tools of all threads is reached", maxAllTools)
	}
	return nil
}

// tools returns the tools of a session's client. They refuse calls of other sessions.
func (f *frontends) tools(session string, list []frontendTool) (all []tools.Tool) {
	execute := func(ctx context.Context, call tools.Call) (schemas.ToolResult, error) {
		if call.Session != session {
			return schemas.ToolResult{}, tools.Failure("the tool is that of another session's client")
		}
		return f.wait(ctx, call)
	}
	for _, t := range list {
		all = append(all, tools.Tool{Execute: execute, ToolDefinition: schemas.ToolDefinition{
			Name: t.Name, Description: t.Description, Parameters: t.Parameters, Channel: true,
			Effect: schemas.EffectIdempotent}}) // waiting for an answer again is harmless
	}
	return all
}

// sweep withdraws the tools of clients that have been idle too long. The caller holds the lock.
func (f *frontends) sweep() {
	for session, one := range f.all {
		if one.calls == 0 && time.Since(one.used) > frontendIdle {
			one.stop()
			delete(f.all, session)
		}
	}
}
