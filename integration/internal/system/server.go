package system

import (
	"testing"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/embedded"
)

// StartServer starts a server on a free port that stores its streams in a directory of the test.
func StartServer(tb testing.TB, syncAlways bool) *embedded.Server {
	tb.Helper()
	server, err := embedded.Start(embedded.Options{Listen: "127.0.0.1:0", StoreDir: tb.TempDir(),
		SyncAlways: syncAlways})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(server.Shutdown)
	return server
}

// Client returns a Go client on a connection.
func Client(tb testing.TB, c *bus.Conn) *client.Client {
	tb.Helper()
	return bustest.Client(tb, c)
}

// Connect connects to one server or several, whose URLs are separated by commas.
func Connect(tb testing.TB, url, name string) *bus.Conn {
	tb.Helper()
	c, err := bus.Connect(tb.Context(), bus.ConnOptions{URL: url, Name: name})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}
