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

// version is the version the runner announces itself with.
const version = "0.1.0"

// serveHTTP answers /healthz (the process lives), /readyz (it reads its share of the sessions, its own tools are
// announced, and the servers store what it says) and /metrics, and serves the console and the bridges.
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

// listenHTTP listens at the address of --http. Where nobody has chosen one and the default is taken, as by another
// runner on this machine, it is a free port.
func (s *service) listenHTTP() (net.Listener, error) {
	listener, err := net.Listen("tcp", s.o.Observe.HTTP)
	if err == nil {
		return listener, nil
	}
	if s.o.Web.picked {
		taken := err
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err == nil {
			s.log.Warn("the default address of --http is taken: a free port is used", "err", taken,
				"address", listener.Addr().String())
			return listener, nil
		}
	}
	return nil, fmt.Errorf("--http: %w", err)
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
	return natsservice.Run(ctx, s.Conn.NATS(), natsservice.Options{
		Name: listing.ServiceName, Version: version, Description: "drives agent sessions and answers queries about them",
		Metadata: map[string]string{listing.MetaID: s.o.Server.ID, listing.MetaModel: s.o.Models.chosen.String(),
			listing.MetaPrefix: prefix, listing.MetaSettings: s.o.digest()},
		Busy: queries.Busy(), Logger: s.log,
	}, endpoints...)
}
