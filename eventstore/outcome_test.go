package eventstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// faulty is a store behind a proxy, next to one that is connected directly.
type faulty struct {
	proxy  *proxy
	store  *eventstore.Store
	direct *eventstore.Store
	js     jetstream.JetStream // direct
}

func newFaulty(t *testing.T, o eventstore.Options) *faulty {
	t.Helper()
	server := startServer(t, t.TempDir(), -1)
	js := connect(t, server.ClientURL())
	createStreams(t, js)
	p := startProxy(t, server.Addr().String())
	f := &faulty{proxy: p, store: newStore(t, connect(t, p.url()), o), js: js}
	o.AppendTimeout, o.OutcomeTimeout = 0, 0 // nothing is lost on its way: a busy machine may need longer
	f.direct = newStore(t, js, o)
	return f
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("%s: still not so", what)
		case <-time.After(time.Millisecond):
		}
	}
}

// stored waits until a session has n events.
func (f *faulty) stored(t *testing.T, session string, n uint64) {
	t.Helper()
	stream, err := f.js.Stream(t.Context(), schemas.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, fmt.Sprintf("%s has %d events", session, n), func() bool {
		m, err := stream.GetLastMsgForSubject(t.Context(), "agent.evt."+session)
		if err != nil {
			return false
		}
		_, last, err := schemas.LogSpan(session, m.Header)
		return err == nil && last == n
	})
}

func open(t *testing.T, s *eventstore.Store, session string) *eventstore.Log {
	t.Helper()
	l, err := s.Open(ctxOf(t), session)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func appendAll(ctx context.Context, l *eventstore.Log, events ...schemas.Event) error {
	for _, e := range events {
		if err := l.Append(ctx, e); err != nil {
			return err
		}
	}
	return l.Flush(ctx)
}

func mustAppend(t *testing.T, l *eventstore.Log, events ...schemas.Event) {
	t.Helper()
	if err := appendAll(ctxOf(t), l, events...); err != nil {
		t.Fatal(err)
	}
}

// mustAppendEach stores each event in a commit of its own.
func mustAppendEach(t *testing.T, l *eventstore.Log, events ...schemas.Event) {
	t.Helper()
	for _, e := range events {
		mustAppend(t, l, e)
	}
}

func mustVerify(t *testing.T, s *eventstore.Store, session string, events uint64) {
	t.Helper()
	r, err := s.Verify(ctxOf(t), session, eventstore.VerifyOptions{})
	if err != nil || !r.OK() || r.Events != events {
		t.Fatalf("verify %s: %d events, fault %v, error %v; want %d sound events", session, r.Events, r.Bad, err, events)
	}
}

func TestAckLost(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, eventstore.Options{AppendTimeout: time.Hour}) // only the lost connection can show it
	l := open(t, f.store, "s1")
	mustAppend(t, l, event("s1", 1, "a"))
	f.proxy.loseDown.Store(true)
	for seq := uint64(2); seq <= 4; seq++ { // 3 and 4 wait behind 2
		if err := l.Append(ctxOf(t), event("s1", seq, "a")); err != nil {
			t.Fatal(err)
		}
		l.Send()
	}
	f.stored(t, "s1", 2)
	f.proxy.cut()
	if err := l.Flush(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	mustVerify(t, f.direct, "s1", 4)
}

func TestPublishLost(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, eventstore.Options{AppendTimeout: time.Hour})
	l := open(t, f.store, "s1")
	mustAppend(t, l, event("s1", 1, "a"))
	f.proxy.loseUp.Store(true)
	if err := l.Append(ctxOf(t), event("s1", 2, "a")); err != nil {
		t.Fatal(err)
	}
	l.Send()
	f.proxy.cut()
	if err := l.Flush(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, event("s1", 3, "a"))
	mustVerify(t, f.direct, "s1", 3)
}

// The connection stays up but is silent for a while: only the timeout shows that.
func TestAckTimesOut(t *testing.T) {
	t.Parallel()
	var logged syncBuffer
	f := newFaulty(t, eventstore.Options{AppendTimeout: time.Second,
		Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	l := open(t, f.store, "s1")
	f.proxy.loseDown.Store(true)
	if err := l.Append(ctxOf(t), event("s1", 1, "a")); err != nil {
		t.Fatal(err)
	}
	l.Send()
	f.stored(t, "s1", 1)
	eventually(t, "the timeout is noticed", func() bool { return strings.Contains(logged.String(), "nats: timeout") })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := l.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("flush while nothing is answered: %v", err)
	}
	f.proxy.loseDown.Store(false)
	mustAppend(t, l, event("s1", 2, "a"))
	mustVerify(t, f.direct, "s1", 2)
}

// A request whose connection is lost is made again at once.
func TestOpenWhileDisconnected(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, eventstore.Options{AppendTimeout: time.Hour, OutcomeTimeout: time.Hour})
	mustAppend(t, open(t, f.direct, "s1"), event("s1", 1, "a"))
	f.proxy.loseUp.Store(true)
	done := make(chan error)
	go func() {
		_, err := f.store.Open(ctxOf(t), "s1")
		done <- err
	}()
	eventually(t, "the request is lost", func() bool { return f.proxy.lost.Load() > 0 })
	f.proxy.cut()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// The first publish is lost, and another writer's commit is stored in its place.
func TestLostPublishIsOvertakenByAnotherWriter(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, eventstore.Options{})
	ours, theirs := open(t, f.store, "s1"), open(t, f.direct, "s1")
	f.proxy.loseUp.Store(true)
	if err := ours.Append(ctxOf(t), event("s1", 1, "a")); err != nil {
		t.Fatal(err)
	}
	ours.Send()
	mustAppend(t, theirs, event("s1", 1, "b"))
	f.proxy.cut()
	if err := ours.Flush(ctxOf(t)); !errors.Is(err, schemas.ErrConflict) {
		t.Fatalf("flush: %v", err)
	}
	mustVerify(t, f.direct, "s1", 1)
}

// A commit is stored, and another writer continues the log before the answer arrives: the commit counts, the next one
// is refused.
func TestStoredThenOvertaken(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, eventstore.Options{})
	ours := open(t, f.store, "s1")
	f.proxy.loseDown.Store(true)
	if err := ours.Append(ctxOf(t), event("s1", 1, "a")); err != nil {
		t.Fatal(err)
	}
	ours.Send()
	f.stored(t, "s1", 1)
	mustAppend(t, open(t, f.direct, "s1"), event("s1", 2, "b"))
	f.proxy.cut()
	if err := ours.Flush(ctxOf(t)); err != nil {
		t.Fatalf("flush of what is stored: %v", err)
	}
	if err := appendAll(ctxOf(t), ours, event("s1", 2, "a")); !errors.Is(err, schemas.ErrConflict) {
		t.Fatalf("append after being overtaken: %v", err)
	}
	mustVerify(t, f.direct, "s1", 2)
}

// The payload in the object store is subject to the same faults.
func TestBlobWhileDisconnected(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, eventstore.Options{BlobThreshold: 100, AppendTimeout: 200 * time.Millisecond})
	l := open(t, f.store, "s1")
	e := event("s1", 1, "a")
	e.Data = &schemas.ErrorEvent{Code: "big", Message: strings.Repeat("x", 1000)}
	f.proxy.loseUp.Store(true)
	if err := l.Append(ctxOf(t), e); err != nil {
		t.Fatal(err)
	}
	l.Send()
	f.proxy.cut()
	mustAppend(t, l, event("s1", 2, "a"))
	mustVerify(t, f.direct, "s1", 2)
}

// TestSnapshotEndsWithTheConnection loses the answer to one of the requests that store a snapshot, and then the
// connection.
func TestSnapshotEndsWithTheConnection(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, eventstore.Options{AppendTimeout: time.Hour,
		OutcomeTimeout: time.Hour}) // they must not be waited for
	l := open(t, f.store, "s1")
	mustAppend(t, l, event("s1", 1, "a"))
	saved := make(chan error, 1)
	eventually(t, "an answer is lost", func() bool {
		heard, lost := f.proxy.heard.Load(), f.proxy.lost.Load()
		go func() { saved <- l.SaveSnapshot(ctxOf(t), 1, 1, []byte(`{}`)) }()
		eventually(t, "the event has been read", func() bool { return f.proxy.heard.Load() > heard })
		f.proxy.loseDown.Store(true)
		for f.proxy.lost.Load() == lost {
			select {
			case err := <-saved: // it was faster
				if err != nil {
					t.Fatal(err)
				}
				f.proxy.loseDown.Store(false)
				return false
			default:
			}
		}
		return true
	})
	f.proxy.cut()
	select {
	case err := <-saved:
		if !errors.Is(err, nats.ErrDisconnected) {
			t.Errorf("got %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it waits for an answer that went with the connection")
	}
}

func TestOutcomeUnknown(t *testing.T) {
	t.Parallel()
	server := startServer(t, t.TempDir(), -1)
	js := connect(t, server.ClientURL())
	createStreams(t, js)
	l := open(t, newStore(t, js, eventstore.Options{OutcomeTimeout: time.Second}), "s1")
	mustAppend(t, l, event("s1", 1, "a"))
	server.Shutdown()
	server.WaitForShutdown()
	err := appendAll(ctxOf(t), l, event("s1", 2, "a"))
	var unknown *eventstore.OutcomeError
	if !errors.As(err, &unknown) || unknown.Session != "s1" || unknown.Seq != 2 {
		t.Fatalf("append without a server: %v", err)
	}
	if !strings.Contains(err.Error(), "session s1 seq 2, outcome unknown") {
		t.Errorf("text %q", err)
	}
	if again := l.Append(ctxOf(t), event("s1", 3, "a")); again != err {
		t.Errorf("the next append: %v", again)
	}
}

func TestConnectionClosed(t *testing.T) {
	t.Parallel()
	_, js := newJetStream(t, eventstore.Options{})
	nc := connect(t, js.Conn().ConnectedUrl())
	l := open(t, newStore(t, nc, eventstore.Options{}), "s1")
	nc.Conn().Close()
	if err := appendAll(ctxOf(t), l, event("s1", 1, "a")); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("append on a closed connection: %v", err)
	}
}

// A server that stops and comes back, on the same store and port, in the middle of appending.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := startServer(t, dir, -1)
	js := connect(t, server.ClientURL())
	createStreams(t, js)
	s := newStore(t, js, eventstore.Options{})
	const n = 400
	ctx, cancel := context.WithCancel(ctxOf(t))
	defer cancel()
	l := open(t, s, "s1")
	port := server.Addr().(*net.TCPAddr).Port
	for seq := uint64(1); seq <= n; seq++ {
		if err := l.Append(ctx, event("s1", seq, "a")); err != nil {
			t.Fatal(err)
		}
		if seq%150 == 0 {
			server.Shutdown()
			server.WaitForShutdown()
			server = startServer(t, dir, port)
		}
	}
	if err := l.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	mustVerify(t, s, "s1", n)
}

// Two writers that append as fast as they can from the same head: exactly one wins.
func TestRace(t *testing.T) {
	t.Parallel()
	s, js := newJetStream(t, eventstore.Options{})
	other := newStore(t, connect(t, js.Conn().ConnectedUrl()), eventstore.Options{})
	for round := range 20 {
		session := fmt.Sprintf("s%d", round)
		logs := []*eventstore.Log{open(t, s, session), open(t, other, session)}
		errs := make(chan error, len(logs))
		for i, l := range logs {
			go func() {
				var all []schemas.Event
				for seq := uint64(1); seq <= 20; seq++ {
					all = append(all, event(session, seq, fmt.Sprint("w", i)))
				}
				errs <- appendAll(ctxOf(t), l, all...)
			}()
		}
		won := 0
		for range logs {
			switch err := <-errs; {
			case err == nil:
				won++
			case !errors.Is(err, schemas.ErrConflict):
				t.Fatal(err)
			}
		}
		if won != 1 {
			t.Fatalf("session %s: %d writers won", session, won)
		}
		mustVerify(t, s, session, 20)
	}
}
