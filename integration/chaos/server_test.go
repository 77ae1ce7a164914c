//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// serverConfig is the configuration of a NATS server of the cluster.
type serverConfig struct {
	Name      string
	Port      int
	RoutePort int
	Routes    []int // ports of all servers of the cluster
	StoreDir  string
}

// readyTimeout bounds how long a server may take to accept connections.
const readyTimeout = 30 * time.Second

// serveNATS runs a server of the cluster until ctx ends. It does not advertise other servers to clients: each client
// knows only its proxies.
func serveNATS(ctx context.Context, c serverConfig) error {
	var routes []*url.URL
	for _, port := range c.Routes {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	s, err := server.NewServer(&server.Options{
		ServerName: c.Name, Host: "127.0.0.1", Port: c.Port, StoreDir: c.StoreDir, JetStream: true, NoSigs: true,
		JetStreamMaxMemory: 1 << 30, JetStreamMaxStore: 8 << 30, Logtime: true,
		Cluster: server.ClusterOpts{Name: "chaos", Host: "127.0.0.1", Port: c.RoutePort, NoAdvertise: true},
		Routes:  routes,
	})
	if err != nil {
		return fmt.Errorf("server %s: %w", c.Name, err)
	}
	s.ConfigureLogger()
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(readyTimeout) && ctx.Err() == nil {
		return fmt.Errorf("server %s: not ready after %s", c.Name, readyTimeout)
	}
	<-ctx.Done()
	return nil
}
