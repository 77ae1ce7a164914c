package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"

	"github.com/loopbus/loopbus/bus/queries"
	natsservice "github.com/loopbus/loopbus/bus/service"
	"github.com/loopbus/loopbus/cmd/internal/observe"
	"github.com/loopbus/loopbus/cmd/runner/internal/listing"
	"github.com/loopbus/loopbus/cmd/wiring"
)

// version is the version that the runner announces.
const version = "0.1.0"

// serveHTTP serves /healthz (the process is alive), /readyz (the runner reads its share of the sessions, its own
// tools are announced, and the NATS servers store its messages) and /metrics, besides the console and the bridges.
func (s *service) serveHTTP(ctx context.Context) error {
	listener, err := s.listenHTTP()
	if err != nil {
		return err
	}
	defer listener.Close()
	d, err := s.openSite(ctx, listener.Addr())
	if err != nil {
		return err
	}
	defer d.close()
	site := observe.Site{Metrics: s.registry, Unready: func() string { return s.unready(ctx) }, Log: s.log}
	if d != nil {
		site.Others, site.Closing = d.site, d.nats.Close
	}
	if d != nil && d.page {
		fmt.Fprintf(s.out, "console: %s\n", d.link(listener.Addr()))
	}
	return site.Serve(ctx, listener)
}

// listenHTTP listens at the address of --http. If --http was not given and another process uses the default port, it
// chooses a free one.
func (s *service) listenHTTP() (net.Listener, error) {
	listener, err := net.Listen("tcp", s.o.Observe.HTTP)
	if err == nil {
		return listener, nil
	}
	if s.o.Web.picked {
		taken := err
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err == nil {
			s.log.Warn("default address of --http is in use, using a free port", "err", taken,
				"address", listener.Addr().String())
			return listener, nil
		}
	}
	return nil, fmt.Errorf("--http: %w", err)
}

// unready returns why the runner is not ready; "" if it is ready.
func (s *service) unready(ctx context.Context) string {
	select {
	case <-s.Ready():
	default:
		return "not reading the inbox yet, or tools not announced yet"
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

// status is the answer of the micro service's status endpoint.
type status struct {
	ID         string `json:"id"`
	Ready      bool   `json:"ready"`
	Partitions []int  `json:"partitions"`
	InFlight   int    `json:"inFlight"`
	Sessions   int    `json:"sessions"`
}

// announce registers the runner as a NATS micro service, which also answers queries about sessions, until ctx ends. It
// has a connection of its own: what others ask, and how much, must not keep the runner from its messages.
func (s *service) announce(ctx context.Context) error {
	nc, err := s.Conn.Open(ctx, "queries")
	if err != nil {
		return fmt.Errorf("answer queries: %w", err)
	}
	prefix := s.Conn.Subjects().Prefix()
	catalogue := wiring.Catalogue{Window: s.o.Models.window, Models: s.o.Models.infos}
	endpoints := append(s.Queries(catalogue), natsservice.Endpoint{
		Name: "status", Subject: prefix + ".svc.runner.status",
		Answer: func(context.Context, natsservice.Request) ([]byte, error) {
			return json.Marshal(status{
				ID: s.o.Server.ID, Ready: s.unready(ctx) == "", Partitions: s.Inbox.Partitions(),
				InFlight: s.Inbox.InFlight(), Sessions: s.Host.Loaded(),
			})
		},
	})
	return natsservice.Run(ctx, nc, natsservice.Options{
		Name: listing.ServiceName, Version: version, Description: "drives agent sessions and answers queries about them",
		Metadata: map[string]string{listing.MetaID: s.o.Server.ID, listing.MetaModel: s.o.Models.chosen.String(),
			listing.MetaPrefix: prefix, listing.MetaSettings: s.o.digest()},
		Busy: queries.Busy(), Logger: s.log,
	}, endpoints...)
}
