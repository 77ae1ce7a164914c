package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/nats-io/nats.go/micro"
	"github.com/prometheus/client_golang/prometheus/promhttp"
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
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	listener, err := net.Listen("tcp", s.o.http)
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
	case <-s.up:
	default:
		return "not reading the inbox, or not all tools announced yet"
	}
	switch {
	case ctx.Err() != nil:
		return "stopping"
	case !s.conn.Connected():
		return "not connected to NATS"
	}
	if err := s.inbox.Health(); err != nil {
		return err.Error()
	}
	return ""
}

// status is what the micro service's endpoint answers.
type status struct {
	ID         string `json:"id"`
	Ready      bool   `json:"ready"`
	Partitions []int  `json:"partitions"`
	InHand     int    `json:"inHand"`
	Sessions   int    `json:"sessions"`
}

// announce lists the runner as a NATS micro service until ctx ends.
func (s *service) announce(ctx context.Context) error {
	svc, err := micro.AddService(s.conn.NATS(), micro.Config{
		Name: "loopbus-runner", Version: version, Description: "drives agent sessions",
		Metadata: map[string]string{"id": s.o.id, "model": s.o.models.chosen.String(), "prefix": s.conn.Subjects().Prefix()},
	})
	if err != nil {
		return fmt.Errorf("announce the micro service: %w", err)
	}
	err = svc.AddEndpoint("status", micro.HandlerFunc(func(r micro.Request) {
		_ = r.RespondJSON(status{
			ID: s.o.id, Ready: s.unready(ctx) == "", Partitions: s.inbox.Partitions(),
			InHand: s.inbox.InHand(), Sessions: s.host.Held(),
		})
	}), micro.WithEndpointSubject(s.conn.Subjects().Prefix()+".svc.runner.status"))
	if err != nil {
		return errors.Join(fmt.Errorf("announce the micro service: %w", err), svc.Stop())
	}
	<-ctx.Done()
	return svc.Stop()
}
