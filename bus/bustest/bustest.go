// Package bustest has helpers for tests with a bus: it starts servers, connects, creates streams, and waits for
// conditions. It stops everything that it has started when the test ends.
package bustest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest/ports"
	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

// SmallPartitions is the number of partitions of [Small].
const SmallPartitions = 16

// Main runs the tests of a package, up to eight in parallel, with their files in memory ([FilesInMemory]). Then it
// fails if goroutines are left, except those of the named functions.
func Main(m *testing.M, but ...string) {
	Run(m, suite.Usual, func(code int) int { return code }, but...)
}

// Run is Main for up to n parallel tests. It calls end with the exit code of the tests, and exits with the code that
// end returns.
func Run(m *testing.M, n int, end func(code int) int, but ...string) {
	suite.Parallel(n)
	CollectSeldom()
	done, err := FilesInMemory()
	if err != nil {
		panic(err)
	}
	but = append(but,
		// nats-server leaves these goroutines behind for some time if it is shut down before a stream has reached its source
		// or what it mirrors.
		"github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3",
		"github.com/nats-io/nats-server/v2/server.(*stream).setupMirrorConsumer.func3",
		// An object store's Put in nats.go 1.55 leaks this goroutine if it has not been scheduled by the time Put returns:
		// then it reads a field that was set to nil.
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

// CollectSeldom lets the heap grow to five times its live size before a collection instead of to twice: with the
// default the collector takes a fifth of the processor time of tests whose server is in their process. It changes
// nothing if GOGC is set, for benchmarks, and for tests that measure their process ([Alone]).
// [Run] calls it; a test binary that runs as a program does so itself.
func CollectSeldom() {
	if os.Getenv("GOGC") == "" && os.Getenv(aloneVariable) == "" && flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(400)
	}
}

// Deadline returns the context of one test. Its timeout is long enough for a busy machine, and ends a test that hangs.
func Deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// Server starts a server in a new directory.
func Server(t testing.TB) *embedded.Server { return ServerIn(t, t.TempDir()) }

// ServerIn starts a server that stores its data in a directory.
func ServerIn(t testing.TB, dir string) *embedded.Server {
	return start(t, embedded.Options{StoreDir: dir})
}

// Restartable returns the address of a server and a function that starts it. The server keeps its address and its data
// over restarts.
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

// FreePort returns an address on loopback with a port that no other test is given, also while its server is down.
func FreePort(t testing.TB) string {
	t.Helper()
	free, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", free[0])
}

// Connect connects to s in process.
func Connect(t testing.TB, s *embedded.Server) *bus.Conn {
	t.Helper()
	return Dial(t, bus.ConnOptions{InProcess: s, Name: t.Name()})
}

// Dial connects with the options.
func Dial(t testing.TB, o bus.ConnOptions) *bus.Conn {
	t.Helper()
	c, err := bus.Connect(Deadline(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// New starts a server with all streams and returns a connection to it.
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

// Setup creates the streams.
func Setup(t testing.TB, c *bus.Conn, o streams.Options) {
	t.Helper()
	if err := streams.Setup(Deadline(t), c, o); err != nil {
		t.Fatal(err)
	}
}

// Eventually waits until ok returns true. It calls ok every 5 ms at first, and less often the longer it has waited,
// because many conditions are requests to a server and many tests wait at the same time.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); {
		waited := time.Since(begun)
		if waited > patience {
			t.Fatalf("did not happen: %s", what)
		}
		<-time.After(min(max(waited/20, 5*time.Millisecond), 100*time.Millisecond))
	}
}

// Within returns the next value of a channel. It fails the test if none arrives within a time that is long enough for a
// busy machine.
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

// Log collects log lines. Its methods may be called concurrently.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer] for the logger.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns all collected lines.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Reset deletes all collected lines.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}

// Logger returns a logger that writes text lines of level Info and above.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Queued returns the number of messages in the inbox.
func Queued(t testing.TB, c *bus.Conn) uint64 {
	t.Helper()
	return Messages(t, c, schemas.StreamCommands)
}

// Messages returns the number of messages in a stream.
func Messages(t testing.TB, c *bus.Conn, stream string) uint64 {
	t.Helper()
	s, err := c.JetStream().Stream(Deadline(t), stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

// Announce writes a tool to the bucket of announced tools, as a worker does.
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
