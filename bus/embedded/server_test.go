package embedded_test

import (
	"bytes"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

func TestServerKeepsItsStoreOverARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := embedded.Start(embedded.Options{StoreDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	c, err := bus.Connect(bustest.Deadline(t), bus.ConnOptions{URL: first.ClientURL()})
	if err != nil {
		t.Fatal(err)
	}
	if err := streams.Setup(bustest.Deadline(t), c, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	ack, err := c.Events().Publish(bustest.Deadline(t), c.Subjects().Event("s1"), []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	first.Shutdown()
	first.Shutdown()

	second := bustest.Connect(t, bustest.ServerIn(t, dir))
	if err := streams.Setup(bustest.Deadline(t), second, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	s, err := second.JetStream().Stream(bustest.Deadline(t), ack.Stream)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := s.GetMsg(bustest.Deadline(t), ack.Sequence); err != nil || string(m.Data) != "hello" {
		t.Errorf("read back %v, %v", m, err)
	}
}

// A store is marked for those who keep tools from it, and the mark stays. Streams without it are not opened.
func TestServerMarksItsStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		s, err := embedded.Start(embedded.Options{StoreDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		s.Shutdown()
		if _, err := os.Stat(filepath.Join(dir, schemas.StoreMark)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, schemas.StoreMark)); err != nil {
		t.Fatal(err)
	}
	if s, err := embedded.Start(embedded.Options{StoreDir: dir}); err == nil {
		t.Error("streams without a mark are opened")
		s.Shutdown()
	} else if !strings.Contains(err.Error(), "is missing") {
		t.Error(err)
	}
}

func TestServerRefuses(t *testing.T) {
	t.Parallel()
	running := bustest.Server(t)
	used, err := url.Parse(running.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	usedDir := t.TempDir()
	bustest.ServerIn(t, usedDir)
	tests := []struct {
		name string
		opts embedded.Options
		want string
	}{
		{"a port in use", embedded.Options{Listen: used.Host}, "address already in use"},
		{"a store in use", embedded.Options{StoreDir: usedDir}, "in use by another server"},
		{"no store", embedded.Options{StoreDir: "-"}, "no store directory"},
		{"a store that is a file", embedded.Options{StoreDir: "server_test.go"}, "store directory"},
		{"an address without a port", embedded.Options{Listen: "127.0.0.1"}, "not host:port"},
		{"a port that is none", embedded.Options{Listen: "127.0.0.1:http"}, "is no port"},
		{"an address of another machine", embedded.Options{Listen: "192.0.2.1:4222"}, "192.0.2.1:4222"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			switch tt.opts.StoreDir {
			case "":
				tt.opts.StoreDir = t.TempDir()
			case "-":
				tt.opts.StoreDir = ""
			}
			s, err := embedded.Start(tt.opts)
			if err == nil {
				s.Shutdown()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want one with %q", err, tt.want)
			}
			if tt.opts.StoreDir == usedDir || tt.opts.StoreDir == "" || tt.opts.StoreDir == "server_test.go" {
				return
			}
			bustest.ServerIn(t, tt.opts.StoreDir) // the failed start has released the directory
		})
	}
}

func TestServerListensOnLoopbackByDefault(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"", ":0", "127.0.0.1:0", "127.0.0.1:-1"} {
		s, err := embedded.Start(embedded.Options{Listen: listen, StoreDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(s.ClientURL())
		if err != nil || u.Hostname() != "127.0.0.1" || u.Port() == "4222" {
			t.Errorf("listen %q: %s", listen, s.ClientURL())
		}
		s.Shutdown()
	}
}

func TestServerWarnsWhenItListensOnAllInterfaces(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s, err := embedded.Start(embedded.Options{
		Listen: "0.0.0.0:0", StoreDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	if !strings.Contains(log.String(), "beyond this machine") {
		t.Errorf("log %q", log.String())
	}
}

func TestServerInProcessOnly(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s, err := embedded.Start(embedded.Options{
		InProcessOnly: true, StoreDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil)), Name: "quiet",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	c := bustest.Connect(t, s)
	if s.ClientURL() != "" || c.NATS().ConnectedServerName() != "quiet" {
		t.Errorf("URL %q, name %q", s.ClientURL(), c.NATS().ConnectedServerName())
	}
	if err := s.Ready(time.Second); err != nil {
		t.Error(err)
	}
	if log.Len() > 0 {
		t.Errorf("a quiet start logs %q", log.String())
	}
}

func TestServerOptionsAreApplied(t *testing.T) {
	t.Parallel()
	s, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), MaxPayload: 4096, SyncAlways: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	c := bustest.Connect(t, s)
	if n := c.NATS().MaxPayload(); n != 4096 {
		t.Errorf("max payload %d", n)
	}
	if _, err := c.JetStream().CreateStream(bustest.Deadline(t), jetstream.StreamConfig{Name: "S"}); err != nil {
		t.Error(err)
	}
}
