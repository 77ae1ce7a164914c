// Package bustest has what tests need of a bus: a server of their own, connections, streams, and a wait for conditions.
// Everything it starts ends with the test.
package bustest

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

// SmallPartitions is how many partitions [Small] has.
const SmallPartitions = 16

// Main runs the tests of a package, eight parallel ones at once, with their files in memory ([FilesInMemory]), and then
// looks for goroutines that are left, but for those of the named functions.
func Main(m *testing.M, but ...string) {
	Run(m, atOnce, func(code int) int { return code }, but...)
}

// Run is Main for so many parallel tests at once. It calls end with the status of the tests, and exits with what end
// returns.
func Run(m *testing.M, atOnce int, end func(code int) int, but ...string) {
	if err := TestsAtOnce(atOnce); err != nil {
		panic(err)
	}
	done, err := FilesInMemory()
	if err != nil {
		panic(err)
	}
	but = append(but,
		// nats-server leaves this one behind for a while when it is shut down before a stream has reached its source.
		"github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3",
		// An object store's Put in nats.go 1.55 forgets this one if it has not been scheduled by the time Put returns: it
		// then reads a field that was set to nil.
		"github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect")
	var o []goleak.Option
	for _, function := range but {
		o = append(o, goleak.IgnoreAnyFunction(function))
	}
	goleak.VerifyTestMain(m, append(o, goleak.Cleanup(func(code int) {
		code = end(code)
		done()
		os.Exit(code)
	}))...)
}

// Deadline is the context of one test: long enough for a busy machine, short enough not to hang.
func Deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// Server starts a server in a new directory.
func Server(t testing.TB) *embedded.Server { return ServerIn(t, t.TempDir()) }

// ServerIn starts a server with a directory.
func ServerIn(t testing.TB, dir string) *embedded.Server {
	return start(t, embedded.Options{StoreDir: dir})
}

// Restartable returns the address and the start of a server that finds its data when it is started again.
func Restartable(t testing.TB) (addr string, again func() *embedded.Server) {
	t.Helper()
	o := embedded.Options{Listen: FreePort(t), StoreDir: t.TempDir()}
	return o.Listen, func() *embedded.Server { t.Helper(); return start(t, o) }
}

func start(t testing.TB, o embedded.Options) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

// FreePort returns an address on loopback that nobody listens on at this moment.
func FreePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// Connect connects to s in process.
func Connect(t testing.TB, s *embedded.Server) *bus.Conn {
	t.Helper()
	return Dial(t, bus.ConnOptions{InProcess: s, Name: t.Name()})
}

// Dial connects as the options say.
func Dial(t testing.TB, o bus.ConnOptions) *bus.Conn {
	t.Helper()
	c, err := bus.Connect(Deadline(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// New returns a connection to a server of its own with all streams.
func New(t testing.TB) *bus.Conn {
	t.Helper()
	c := Connect(t, Server(t))
	Setup(t, c, streams.Options{})
	return c
}

// Small is New with few partitions, and with its server.
func Small(t testing.TB) (*embedded.Server, *bus.Conn) {
	t.Helper()
	s := Server(t)
	c := Connect(t, s)
	Setup(t, c, streams.Options{Partitions: SmallPartitions})
	return s, c
}

// Setup makes the streams.
func Setup(t testing.TB, c *bus.Conn, o streams.Options) {
	t.Helper()
	if err := streams.Setup(Deadline(t), c, o); err != nil {
		t.Fatal(err)
	}
}

// Eventually waits until ok holds.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("never happened: %s", what)
		}
	}
}

// Within returns what comes by a channel, for which a test waits as long as a busy machine may take.
func Within[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("waited too long")
		panic("unreachable")
	}
}

// Log collects log lines from several goroutines.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write is for the logger.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns the lines so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Reset forgets the lines so far.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}

// Logger returns a logger of lines of text, from the level Info on.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Queued returns how many messages the inbox has.
func Queued(t testing.TB, c *bus.Conn) uint64 {
	t.Helper()
	return Messages(t, c, schemas.StreamCommands)
}

// Messages returns how many messages a stream has.
func Messages(t testing.TB, c *bus.Conn, stream string) uint64 {
	t.Helper()
	s, err := c.JetStream().Stream(Deadline(t), stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

// Announce puts a tool into the bucket of announced tools, as a worker does.
func Announce(t testing.TB, c *bus.Conn, worker string, def schemas.ToolDefinition) {
	t.Helper()
	data, err := schemas.Marshal(schemas.ToolAnnouncement{ToolDefinition: def, Worker: worker,
		Since: "2026-01-01T00:00:00Z"})
	if err != nil {
		t.Fatal(err)
	}
	kv, err := c.JetStream().KeyValue(Deadline(t), schemas.BucketTools)
	if err == nil {
		_, err = kv.Put(Deadline(t), schemas.AnnouncementKey(def.Queue().Name(), worker), data)
	}
	if err != nil {
		t.Fatal(err)
	}
}
