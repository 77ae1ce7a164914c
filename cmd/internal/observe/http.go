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

// maxScrapes is how many scrapes are answered at once; each may ask the servers.
const maxScrapes = 4

// A Site is what a program answers over HTTP: /healthz (the process lives), /readyz, /metrics, and what others there
// are.
type Site struct {
	Metrics prometheus.Gatherer
	Unready func() string // why the program should get no traffic, or ""
	Others  http.Handler  // of all other paths; nil is none
	Closing func()        // called when the site stops, before requests are waited for; nil does nothing
	Log     *slog.Logger
}

// Serve serves a site without others at an address until ctx ends. It returns at once where the address is [Off].
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

// Serve serves the site until ctx ends, and closes the listener. Requests under way end with ctx.
func (s Site) Serve(ctx context.Context, listener net.Listener) error {
	server := Server(s.handler(), s.Log)
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	if s.Others == nil {
		server.WriteTimeout = 30 * time.Second // otherwise events are streamed for as long as somebody listens
	}
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

// Server is an HTTP server for a port of a program. A request has ten seconds to be sent, and its answer as long as it
// takes.
func Server(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
}

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
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes, ErrorHandling: promhttp.ContinueOnError,
	}))
	if s.Others != nil {
		mux.Handle("/", s.Others)
	}
	return mux
}
