package bustest

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/loopbus/loopbus/bus/permissions"
)

// NATS starts a server on loopback with exactly these options. Without a port it listens on a free one, and without a
// directory it gets a new one.
func NATS(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	o.Host, o.Port, o.NoLog, o.NoSigs = "127.0.0.1", cmp.Or(o.Port, server.RANDOM_PORT), true, true
	o.StoreDir = cmp.Or(o.StoreDir, t.TempDir())
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(patience) {
		t.Fatal("the NATS server is not ready")
	}
	return s
}

// Configured starts a server with JetStream and a configuration, which must not set the port and the directory.
func Configured(t testing.TB, config string) *server.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, config)
	}
	o.Port, o.JetStream, o.StoreDir = 0, true, ""
	return NATS(t, o)
}

// RolesOf returns the roles in the row of a command in the table of commands.
func RolesOf(t testing.TB, command string) []permissions.Name {
	t.Helper()
	for _, c := range permissions.Commands() {
		if c.Name == command {
			return c.Roles
		}
	}
	t.Fatalf("the table has no row %q", command)
	return nil
}
