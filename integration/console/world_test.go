//go:build unix

package console_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/bus/natsws"
	"github.com/loopbus/loopbus/bus/queries"
	"github.com/loopbus/loopbus/bus/service"
	"github.com/loopbus/loopbus/bus/web"
	"github.com/loopbus/loopbus/cmd/wiring"
	"github.com/loopbus/loopbus/console"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// world is a server, a runner, and the port that the console is at.
type world struct {
	*system.System
	t      *testing.T
	site   string
	server *embedded.Server
	stored embedded.Options
}

func newWorld(t *testing.T, o system.Options) *world {
	t.Helper()
	t.Parallel()
	needsBrowser(t)
	w := &world{t: t, stored: embedded.Options{Listen: bustest.FreePort(t), StoreDir: t.TempDir()}}
	w.startServer()
	t.Cleanup(func() { w.server.Shutdown() })
	if o.UpdateInterval == 0 {
		o.UpdateInterval = -1
	}
	w.System = system.Start(t, w.server.ClientURL(), o)
	system.Serve(t, func(ctx context.Context) error {
		return service.Run(ctx, w.Conn.NATS(), service.Options{Name: "loopbus-runner", Version: "0.1.0",
			Busy: queries.Busy(), Metadata: map[string]string{"id": "r1", "model": "scripted", "prefix": "agent"}},
			w.Queries(wiring.Catalogue{Models: func() []schemas.ModelInfo {
				return []schemas.ModelInfo{{API: "scripted", Provider: "scripted", ID: "scripted", Key: true,
					ContextWindow: 200_000}}
			}, Window: func(schemas.ModelRef) int64 { return 200_000 }})...)
	})
	w.site = serveConsole(t, w.URL)
	return w
}

// serveConsole serves the console for a server, and returns where.
func serveConsole(t *testing.T, url string) string {
	t.Helper()
	bridge := natsws.New(natsws.Options{Upstream: natsws.Upstream{URL: url}})
	t.Cleanup(bridge.Close)
	site, err := web.New(web.Options{Files: console.Files(), Loopback: true, Mounts: []web.Mount{
		{Pattern: "/nats", Handler: bridge},
		{Pattern: "/config.json", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"prefix":"agent"}`))
		})},
	}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(site)
	t.Cleanup(server.Close)
	return server.URL
}

func (w *world) startServer() {
	w.t.Helper()
	var err error
	if w.server, err = embedded.Start(w.stored); err != nil {
		w.t.Fatal(err)
	}
}

// open opens a window at a place of the console.
func (w *world) open(hash string) *window {
	w.t.Helper()
	win := newWindow(w.t)
	win.do(chromedp.Navigate(w.site + "/" + hash))
	return win
}

// chunked is a model that says the replies in pieces of three bytes.
func chunked(t *testing.T, replies ...scripted.Response) *scripted.Model {
	t.Helper()
	m, err := scripted.NewScripts(scripted.Options{ChunkSize: 3}, scripted.Script{Responses: replies, Loop: true})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
