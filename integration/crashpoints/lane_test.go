package crashpoints_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/registry"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// lane is a system on a server of its own, on which one trial after the other is run. A runner that survives a trial
// serves in the next.
type lane struct {
	ctx      context.Context
	o        laneOptions
	password string    // of the server
	target   string    // of gateways
	conn     *bus.Conn // beside them
	store    *eventstore.Store
	toolbox  *registry.Toolbox

	runner, worker *process
	log            bustest.Log    // of the runners in the trial under way
	graves         sync.WaitGroup // of dead processes
	started        int            // processes and sessions, for their names

	mu         sync.Mutex
	trial      *trial
	deliveries map[string]delivery // by reply subject
}

// laneOptions say how fast what a dead process held is given to another.
type laneOptions struct {
	workerAckWait time.Duration // of tool calls; 0 is too long to come into play
}

func newLane(t testing.TB, o laneOptions) *lane {
	t.Helper()
	l := &lane{ctx: t.Context(), o: o, password: rand.Text(), deliveries: map[string]delivery{}}
	url := l.startServer(t)
	l.target = strings.TrimPrefix(url, "nats://")
	var err error
	if l.conn, err = l.connect(url, "test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.conn.Close)
	if err := streams.Setup(l.ctx, l.conn, streams.Options{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	if l.store, err = eventstore.New(l.conn.Events(), eventstore.Options{}); err != nil {
		t.Fatal(err)
	}
	l.toolbox = registry.NewToolbox(l.conn, nil)
	t.Cleanup(l.toolbox.Close)
	t.Cleanup(l.close)
	l.startWorker(t, nil)
	l.startRunner(t, nil)
	return l
}

// startServer starts the lane's server and returns its URL. It wants a password, because clients of another test's
// server, which was killed, may try to come back to a port that is this one's by now.
func (l *lane) startServer(t testing.TB) string {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(),
		Username: user, Password: l.password, NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(deadline) {
		t.Fatal("the server never became ready")
	}
	return s.ClientURL()
}

const user = "lane"

func (l *lane) connect(url, name string) (*bus.Conn, error) {
	return bus.Connect(l.ctx, bus.ConnOptions{URL: url, Name: name,
		Dial: dial.Settings{User: user, Password: l.password}})
}

// close buries whoever still runs, and returns when nothing of anybody does.
func (l *lane) close() {
	for _, p := range []*process{l.runner, l.worker} {
		if p != nil {
			l.graves.Go(p.bury)
		}
	}
	l.graves.Wait()
}

// name makes a new name.
func (l *lane) name(what string) string {
	l.started++
	return fmt.Sprintf("%s%d", what, l.started)
}

// deliver notes what was delivered with a reply subject.
func (l *lane) deliver(reply string, d delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deliveries[reply] = d
}

func (l *lane) delivered(reply string) (delivery, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, ok := l.deliveries[reply]
	return d, ok
}

// current is the trial of a session, nil if it is over.
func (l *lane) current(session string) *trial {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trial == nil || l.trial.session != session {
		return nil
	}
	return l.trial
}

func (l *lane) begin(tr *trial) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trial = tr
	l.log.Reset()
	clear(l.deliveries)
}

// forget takes a dead runner out of the live ones, as its entry's TTL would.
func (l *lane) forget(t testing.TB, id string) {
	t.Helper()
	kv, err := l.conn.JetStream().KeyValue(l.ctx, schemas.BucketRunners)
	if err == nil {
		err = kv.Purge(l.ctx, id, jetstream.PurgeTTL(time.Minute))
	}
	if err != nil {
		t.Fatalf("take runner %s out of the live ones: %v", id, err)
	}
}
