package crashpoints_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
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

// stage is a system with its own server that runs one trial after the other. A runner that survives a trial serves in
// the next one.
type stage struct {
	ctx      context.Context
	o        stageOptions
	password string    // of the server
	target   string    // of gateways
	conn     *bus.Conn // direct, not through a gateway
	store    *eventstore.Store
	toolbox  *registry.Toolbox

	runner, worker *process
	log            bustest.Log    // of the processes in the current trial
	graves         sync.WaitGroup // calls of bury
	started        int            // number of processes and sessions, for their names

	mu         sync.Mutex
	trial      *trial
	deliveries map[string]delivery // by reply subject
	processes  []*process          // that are not buried, for failure messages
}

// stageOptions configure how fast the deliveries of a dead process are redelivered, and the number of stages.
type stageOptions struct {
	workerAckWait time.Duration // of tool calls; 0 is too long to matter
	times         int           // factor for the number of stages, for trials that wait most of the time
}

func newStage(t testing.TB, o stageOptions) *stage {
	t.Helper()
	l := &stage{ctx: t.Context(), o: o, password: rand.Text(), deliveries: map[string]delivery{}}
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

// startServer starts the stage's server and returns its URL. The server requires a password, because clients of another
// test's server may reconnect to its old port, which this server may have now.
func (l *stage) startServer(t testing.TB) string {
	t.Helper()
	s := bustest.NATS(t, &server.Options{JetStream: true, Username: user, Password: l.password})
	return s.ClientURL()
}

const user = "stage"

func (l *stage) connect(url, name string) (*bus.Conn, error) {
	return bus.Connect(l.ctx, bus.ConnOptions{URL: url, Name: name,
		Dial: dial.Settings{User: user, Password: l.password}})
}

// close kills the processes that still run, and returns when they have ended.
func (l *stage) close() {
	for _, p := range []*process{l.runner, l.worker} {
		if p != nil {
			l.graves.Go(p.bury)
		}
	}
	l.graves.Wait()
}

func (l *stage) join(p *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.processes = append(l.processes, p)
}

func (l *stage) leave(p *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.processes = slices.DeleteFunc(l.processes, func(other *process) bool { return other == p })
}

// describeProcesses says which processes run, and why the others have ended.
func (l *stage) describeProcesses() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, p := range l.processes {
		all = append(all, p.describe())
	}
	return strings.Join(all, "; ")
}

// name returns a new name.
func (l *stage) name(what string) string {
	l.started++
	return fmt.Sprintf("%s%d", what, l.started)
}

// deliver records a delivery by its reply subject.
func (l *stage) deliver(reply string, d delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deliveries[reply] = d
}

func (l *stage) delivered(reply string) (delivery, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, ok := l.deliveries[reply]
	return d, ok
}

// current returns the trial of a session; nil if it has ended.
func (l *stage) current(session string) *trial {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trial == nil || l.trial.session != session && !isChild(session, l.trial.session) {
		return nil
	}
	return l.trial
}

func (l *stage) begin(tr *trial) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trial = tr
	l.log.Reset()
	clear(l.deliveries)
}

// forget deletes the entry of a dead runner from the bucket of live runners, as its TTL would.
func (l *stage) forget(t testing.TB, id string) {
	t.Helper()
	kv, err := l.conn.JetStream().KeyValue(l.ctx, schemas.BucketRunners)
	if err == nil {
		err = kv.Purge(l.ctx, id, jetstream.PurgeTTL(time.Minute))
	}
	if err != nil {
		t.Fatalf("delete the entry of runner %s: %v", id, err)
	}
}
