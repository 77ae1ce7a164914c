package bus_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

func TestConnectWithoutAServer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	addr := bustest.FreePort(t)
	_, err := bus.Connect(ctx, bus.ConnOptions{URL: "nats://ann:s3cret@" + addr + ", nats://t0ken@" + addr})
	if err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("error %v does not say where", err)
	}
	if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "t0ken") ||
		strings.Contains(err.Error(), "ann") {
		t.Errorf("error %v holds credentials", err)
	}
}

func TestConnectWaitsForTheServer(t *testing.T) {
	t.Parallel()
	addr := bustest.FreePort(t)
	type result struct {
		c   *bus.Conn
		err error
	}
	connected := make(chan result)
	go func() {
		c, err := bus.Connect(bustest.Deadline(t), bus.ConnOptions{URL: "nats://" + addr})
		connected <- result{c, err}
	}()
	s, err := embedded.Start(embedded.Options{Listen: addr, StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	r := <-connected
	if r.err != nil {
		t.Fatal(r.err)
	}
	r.c.Close()
	r.c.Close()
}

func TestConnectRefusesBadOptions(t *testing.T) {
	t.Parallel()
	s := bustest.Server(t)
	notASeed := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(notASeed, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]bus.ConnOptions{
		"no server":                    {},
		"two servers":                  {URL: s.ClientURL(), InProcess: s},
		"a malformed URL":              {URL: "nats://ann:s3cret/x@host:1"},
		"two kinds of credentials":     {InProcess: s, Dial: dial.Settings{User: "ann", Password: "s3cret", Token: "s3cret"}},
		"a seed file that is none":     {InProcess: s, Dial: dial.Settings{NKeySeedFile: notASeed}},
		"a creds file that is missing": {InProcess: s, Dial: dial.Settings{CredsFile: "missing"}},
		"a CA that is missing":         {URL: s.ClientURL(), Dial: dial.Settings{CAFile: "missing"}},
		"a key without a certificate":  {URL: s.ClientURL(), Dial: dial.Settings{KeyFile: "missing"}},
		"a prefix with a wildcard":     {InProcess: s, Prefix: "a.*"},
		"an inbox prefix":              {InProcess: s, Dial: dial.Settings{InboxPrefix: "a.>"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := bus.Connect(bustest.Deadline(t), o)
			if err == nil {
				c.Close()
				t.Fatal("connected")
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("error %v holds credentials", err)
			}
		})
	}
}

// lockedServer starts a server that requires credentials.
func lockedServer(t *testing.T) *server.Server {
	t.Helper()
	return bustest.NATS(t, &server.Options{JetStream: true, Username: "ann", Password: "s3cret"})
}

func TestConnectWithCredentials(t *testing.T) {
	t.Parallel()
	s := lockedServer(t)
	var log bustest.Log
	c, err := bus.Connect(bustest.Deadline(t), bus.ConnOptions{
		URL: s.ClientURL(), Logger: log.Logger(),
		Dial: dial.Settings{User: "ann", Password: "s3cret", InboxPrefix: "_INBOX_ann"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !strings.HasPrefix(c.NATS().NewInbox(), "_INBOX_ann.") {
		t.Errorf("inbox %s", c.NATS().NewInbox())
	}
	start := time.Now()
	_, err = bus.Connect(bustest.Deadline(t), bus.ConnOptions{URL: strings.Replace(s.ClientURL(), "//", "//ann:wr0ng@",
		1)})
	if err == nil || strings.Contains(err.Error(), "wr0ng") ||
		!strings.Contains(strings.ToLower(err.Error()), "authorization") {
		t.Errorf("with a wrong password: %v", err)
	}
	if time.Since(start) > 10*time.Second {
		t.Error("Connect retried after a refusal")
	}
}

// A server that has no time to look at the credentials of a connection ends it; this is no refusal.
func TestConnectWaitsForABusyServer(t *testing.T) {
	t.Parallel()
	s := bustest.Server(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		busy, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(busy, "INFO {\"auth_required\":true}\r\n-ERR 'Authentication Timeout'\r\n")
		for {
			c, err := l.Accept()
			if err != nil {
				_ = busy.Close()
				return
			}
			go forward(c, strings.TrimPrefix(s.ClientURL(), "nats://"))
		}
	}()
	c, err := bus.Connect(bustest.Deadline(t), bus.ConnOptions{URL: "nats://" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// forward connects c to addr until either end closes.
func forward(c net.Conn, addr string) {
	defer func() { _ = c.Close() }()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(server, c)
		_ = server.Close()
	}()
	_, _ = io.Copy(c, server)
}

// The connection for the log must not store an append after it reported it as failed. Both connections reconnect.
func TestConnSurvivesTheServer(t *testing.T) {
	t.Parallel()
	addr, start := bustest.Restartable(t)
	s := start()
	var log bustest.Log
	c, err := bus.Connect(bustest.Deadline(t), bus.ConnOptions{URL: "nats://ann:s3cret@" + addr, Name: "test",
		Logger: log.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := streams.Setup(bustest.Deadline(t), c, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	bustest.Eventually(t, "both connections are down", func() bool {
		return !c.NATS().IsConnected() && !c.Events().Conn().IsConnected()
	})
	if c.Connected() {
		t.Error("connected to nothing")
	}
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := c.Events().Publish(ctx, c.Subjects().Event("s1"), nil); err == nil {
			t.Error("an append without a server succeeded")
		}
		cancel()
	}
	start()
	bustest.Eventually(t, "both connections are back", c.Connected)
	stream, err := c.Events().Stream(bustest.Deadline(t), schemas.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.LastSeq; n != 0 {
		t.Errorf("%d appends that had failed were stored afterwards", n)
	}
	if _, err := c.Events().Publish(bustest.Deadline(t), c.Subjects().Event("s1"), nil); err != nil {
		t.Error(err)
	}
	// Connected is true before nats.go calls the handler that logs it.
	bustest.Eventually(t, "both reconnects are logged", func() bool {
		return strings.Count(log.String(), "connection to NATS re-established") == 2
	})
	text := log.String()
	for _, line := range []string{
		`connection to NATS lost" connection=test `, `connection to NATS lost" connection=test/events`,
		`connection to NATS re-established" connection=test `, `connection to NATS re-established" connection=test/events`,
	} {
		if n := strings.Count(text, line); n != 1 {
			t.Errorf("logged %d times: %s\n%s", n, line, text)
		}
	}
	if strings.Contains(text, "s3cret") {
		t.Errorf("the log holds credentials:\n%s", text)
	}
}

// A process may open and close connections for as long as it runs: those that are closed take no memory.
func TestClosedConnectionsAreForgotten(t *testing.T) {
	t.Parallel()
	c := bustest.Connect(t, bustest.Server(t))
	for range 5 {
		nc, err := c.Open(bustest.Deadline(t), "more")
		if err != nil {
			t.Fatal(err)
		}
		if n := bus.Links(c); n != 3 {
			t.Errorf("%d connections are kept", n)
		}
		nc.Close()
	}
}

func TestConnUsesThePrefix(t *testing.T) {
	t.Parallel()
	c, err := bus.Connect(bustest.Deadline(t), bus.ConnOptions{InProcess: bustest.Server(t), Prefix: "acme.agents"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if got := c.Subjects().Event("s1"); got != "acme.agents.evt.s1" {
		t.Errorf("subject %s", got)
	}
	if _, err := bus.Connect(bustest.Deadline(t), bus.ConnOptions{URL: "x", Prefix: "a b"}); !errors.Is(err,
		schemas.ErrSubject) {
		t.Errorf("prefix with a space: %v", err)
	}
}
