package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/loopbus/loopbus/bus/queries"
	natsservice "github.com/loopbus/loopbus/bus/service"
	"github.com/loopbus/loopbus/cmd/runner/internal/listing"
	"github.com/loopbus/loopbus/cmd/wiring"
)

// version is the version the runner announces itself with.
const version = "0.1.0"

// serveHTTP answers /healthz (the process lives), /readyz (it reads its share of the sessions, its own tools are
// announced, and the servers store what it says) and /metrics.
func (s *service) serveHTTP(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if reason := s.unready(ctx); reason != "" {
			http.Error(w, reason, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	listener, err := net.Listen("tcp", s.o.Observe.HTTP)
	if err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.Shutdown(stop)
	})()
	s.log.Info("health and metrics", "address", listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// unready says why the runner should get no traffic, or "".
func (s *service) unready(ctx context.Context) string {
	select {
	case <-s.Ready():
	default:
		return "not reading the inbox, or not all tools announced yet"
	}
	switch {
	case ctx.Err() != nil:
		return "stopping"
	case !s.Conn.Connected():
		return "not connected to NATS"
	}
	if err := s.Inbox.Health(); err != nil {
		return err.Error()
	}
	return ""
}

// status is what the micro service's endpoint answers.
type status struct {
	ID         string `json:"id"`
	Ready      bool   `json:"ready"`
	Partitions []int  `json:"partitions"`
	InFlight   int    `json:"inFlight"`
	Sessions   int    `json:"sessions"`
}

// announce lists the runner as a NATS micro service, which also answers queries about sessions, until ctx ends.
func (s *service) announce(ctx context.Context) error {
	prefix := s.Conn.Subjects().Prefix()
	endpoints := append(s.Queries(wiring.Catalogue{Window: s.o.Models.window, Models: s.o.Models.infos}), natsservice.Endpoint{
		Name: "status", Subject: prefix + ".svc.runner.status",
		Answer: func(context.Context, natsservice.Request) ([]byte, error) {
			return json.Marshal(status{
				ID: s.o.Server.ID, Ready: s.unready(ctx) == "", Partitions: s.Inbox.Partitions(),
				InFlight: s.Inbox.InFlight(), Sessions: s.Host.Loaded(),
			})
		},
	})
	return natsservice.Run(ctx, s.Conn.NATS(), natsservice.Options{
		Name: listing.ServiceName, Version: version, Description: "drives agent sessions and answers queries about them",
		Metadata: map[string]string{listing.MetaID: s.o.Server.ID, listing.MetaModel: s.o.Models.chosen.String(),
			listing.MetaPrefix: prefix, listing.MetaSettings: s.o.digest()},
		Busy: queries.Busy(), Logger: s.log,
	}, endpoints...)
}
