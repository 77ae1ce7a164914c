package mcp

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	mostMissed = 3            // pings in a row that a server may leave without an answer
	pingless   = "2026-07-28" // the first version of MCP without a ping
)

// A session is a session with a server that calls can use.
type session struct {
	*sdk.ClientSession
	pulse  *pulse
	broken chan error // has why the session is unusable
}

// lost tells that the session is unusable.
func (s *session) lost(why error) {
	select {
	case s.broken <- why:
	default: // there is a reason already
	}
}

// set sets the session that calls use, or the reason why there is none.
func (b *Bridge) set(s *session, trouble error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.session, b.trouble = s, trouble
}

// live returns the session, or why there is none.
func (b *Bridge) live() (*session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session, b.trouble
}

// keepAlive pings the server until ctx ends. If the server hangs, the session is lost. A server over HTTP that may know
// no ping gets none; a process says so, which is an answer.
func (s *session) keepAlive(ctx context.Context, every time.Duration, isProcess bool) {
	if !isProcess && s.InitializeResult().ProtocolVersion >= pingless {
		return
	}
	if s.pulse.watch(ctx, every, func(ctx context.Context) error { return s.Ping(ctx, nil) }) {
		s.lost(errSilent)
	}
}

// A pulse tells a server that is at work from one that hangs. A server that does one thing at a time answers no ping
// during a call. So it may be at work on a call that was sent before it fell silent, if that call has a time limit. The
// zero value is ready for use. It is safe for concurrent use.
type pulse struct {
	mu     sync.Mutex
	calls  map[string]time.Time // calls in flight with a time limit: when they were sent
	silent time.Time            // when the server was found silent, zero if it has said something since
	missed int                  // pings in a row since
}

// watch pings until ctx ends or the server hangs, and reports whether it hangs. While the server may be at work no ping
// is sent: those that it does not read would fill its input.
func (p *pulse) watch(ctx context.Context, every time.Duration, ping func(context.Context) error) (hangs bool) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		if p.atWork() {
			continue
		}
		ask, cancel := context.WithTimeout(ctx, every/2)
		err := ping(ask)
		late := ask.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return false
		case err == nil, refusal(err) != nil, errors.Is(err, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound}):
			p.heard()
		case p.miss(late):
			return true
		}
	}
}

// begin notes that a call is sent. Its end has to be told.
func (p *pulse) begin(ctx context.Context, token string) (end func()) {
	if _, limited := ctx.Deadline(); !limited {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == nil {
		p.calls = map[string]time.Time{}
	}
	p.calls[token] = time.Now()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.calls, token)
	}
}

// heard notes that the server has said something.
func (p *pulse) heard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent, p.missed = time.Time{}, 0
}

// miss notes a ping without an answer and reports whether the server hangs. One that fails before its time is up, as
// with a refused connection, says nothing of work.
func (p *pulse) miss(late bool) (hangs bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent.IsZero() {
		p.silent = time.Now()
	}
	if !late || !p.excused() {
		p.missed++
	}
	return p.missed >= mostMissed
}

// atWork reports whether the server is silent, but may be at work.
func (p *pulse) atWork() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.missed == 0 && p.excused()
}

// excused reports whether a call is in flight that was sent before the server fell silent.
func (p *pulse) excused() bool {
	for _, sent := range p.calls {
		if sent.Before(p.silent) {
			return true
		}
	}
	return false
}
