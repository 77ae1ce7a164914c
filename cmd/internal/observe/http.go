package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxScrapes limits concurrent scrapes; each may query the servers.
const maxScrapes = 4

// A Site is what a program serves over HTTP: /healthz (the process is alive), /readyz, /metrics, and other handlers.
type Site struct {
	Metrics prometheus.Gatherer
	Unready func() string // why the program is not ready, or ""
	Others  http.Handler  // handles all other paths; nil handles none
	Closing func()        // called on shutdown, before waiting for requests; may be nil
	Log     *slog.Logger
}

// Serve serves a site without other handlers at an address until ctx ends. If the address is [Off], it returns at
// once.
func Serve(ctx context.Context, address string, metrics prometheus.Gatherer, unready func() string,
	log *slog.Logger) error {
	if address == Off {
		return nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	return Site{Metrics: metrics, Unready: unready, Log: log}.Serve(ctx, listener)
}

// Serve serves the site until ctx ends, and closes the listener. Requests in progress are cancelled with ctx.
func (s Site) Serve(ctx context.Context, listener net.Listener) error {
	server := Server(s.handler(), s.Log)
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	s.Log.Info("health and metrics", "address", listener.Addr().String())
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		if s.Closing != nil {
			s.Closing()
		}
		soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(soon) != nil {
			_ = server.Close()
		}
	})
	err := server.Serve(listener)
	if !errors.Is(err, http.ErrServerClosed) {
		stop()
		return err
	}
	<-stopped
	return nil
}

// Server returns an HTTP server for a port of a program. A request must arrive within ten seconds; its answer may
// take any time, but the client must accept each part within thirty seconds. It has at most 1024 open connections, and
// no more than a quarter of the files that the process may open: for a further one it closes the one that has waited
// longest for its client.
func Server(handler http.Handler, log *slog.Logger) *http.Server {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	limit(server, connectionsOf(maxFiles()))
	return server
}

// handler leaves all other paths to the other handlers as they are: a mux would redirect a path that is not clean, with
// its query, before their checks.
func (s Site) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if reason := s.Unready(); reason != "" {
			http.Error(w, reason, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", gathered(promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes, ErrorHandling: promhttp.ContinueOnError,
	})))
	others := s.Others
	if others == nil {
		others = http.NotFoundHandler()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz", "/readyz", "/metrics":
			mux.ServeHTTP(w, r)
		default:
			others.ServeHTTP(w, r)
		}
	})
}
