// Package cluster runs clusters of NATS servers, each in a separate process, for tests that kill some of them or cut
// them off from the others.
package cluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest/ports"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/integration/internal/system"
)

// Options configure a cluster. The zero value is three servers.
type Options struct {
	Servers    int // one is a server without a cluster
	SyncAlways bool
	// Severable connects the servers through links that can be cut, see [Cluster.Isolate].
	Severable bool
}

// Cluster is a cluster of servers. Only the goroutine of the test may call its methods.
type Cluster struct {
	tb      testing.TB
	options []embedded.Options
	servers []*child // nil if the server is down
	ready   []bool   // true once the server has caught up
	links   []*link  // between the servers, if they are severable
}

// Start starts the servers and returns once they have elected a leader. They are stopped when the test ends. The
// TestMain of the package has to call [Main].
func Start(tb testing.TB, o Options) *Cluster {
	tb.Helper()
	n := o.Servers
	if n == 0 {
		n = 3
	}
	c := &Cluster{tb: tb, options: make([]embedded.Options, n), servers: make([]*child, n), ready: make([]bool, n)}
	free, err := ports.Free(2 * n)
	if err != nil {
		tb.Fatal(err)
	}
	listen, routes, dirs := addresses(free[:n]), addresses(free[n:]), make([]string, n)
	for i := range n {
		dirs[i] = tb.TempDir()
	}
	tb.Cleanup(func() {
		for i := range n {
			c.Stop(i)
		}
	})
	for i := range n {
		c.options[i] = embedded.Options{
			Name: fmt.Sprintf("n%d", i), Listen: listen[i], StoreDir: dirs[i], SyncAlways: o.SyncAlways,
		}
		if n > 1 {
			c.options[i].Cluster = embedded.ClusterOptions{Name: "test", Listen: routes[i], Routes: routes}
		}
		if o.Severable {
			c.options[i].Cluster.Routes = c.linksFrom(i, routes)
			c.options[i].Cluster.Advertise = nowhere
		}
		c.Start(i)
	}
	c.WaitReady()
	return c
}

func addresses(ports []int) []string {
	all := make([]string, len(ports))
	for i, port := range ports {
		all[i] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	return all
}

// URL returns the URLs of all servers, including those that are down.
func (c *Cluster) URL() string {
	urls := make([]string, len(c.options))
	for i := range c.options {
		urls[i] = c.URLOf(i)
	}
	return strings.Join(urls, ",")
}

// URLOf returns the URL of one server.
func (c *Cluster) URLOf(i int) string { return "nats://" + c.options[i].Listen }

// StoreOf returns the directory of a server's store.
func (c *Cluster) StoreOf(i int) string { return c.options[i].StoreDir }

// Start starts a server that was stopped or killed. It does not wait until the server has caught up.
func (c *Cluster) Start(i int) {
	c.tb.Helper()
	if c.servers[i] == nil {
		c.servers[i], c.ready[i] = launch(c.tb, c.options[i]), false
	}
}

// Stop shuts a server down gracefully.
func (c *Cluster) Stop(i int) {
	if p := c.servers[i]; p != nil {
		p.stop()
		c.servers[i] = nil
	}
}

// Kill kills a server, as SIGKILL does.
func (c *Cluster) Kill(i int) {
	if p := c.servers[i]; p != nil {
		p.kill()
		c.servers[i] = nil
	}
}

// WaitReady waits until every server that is up has a leader and has caught up with the others.
func (c *Cluster) WaitReady() {
	c.tb.Helper()
	for i, p := range c.servers {
		if p != nil && !c.ready[i] {
			p.waitFor(c.tb, "ready")
			c.ready[i] = true
		}
	}
}

// LeaderOf returns the server that leads a stream.
func (c *Cluster) LeaderOf(conn *bus.Conn, stream string) int {
	c.tb.Helper()
	leader := -1
	system.Eventually(c.tb, stream+" has a leader", func() bool {
		s, err := conn.JetStream().Stream(c.tb.Context(), stream)
		if err != nil || s.CachedInfo().Cluster == nil {
			return false
		}
		for i, o := range c.options {
			if c.servers[i] != nil && o.Name == s.CachedInfo().Cluster.Leader {
				leader = i
			}
		}
		return leader >= 0
	})
	return leader
}

// Size returns the number of servers, including those that are down.
func (c *Cluster) Size() int { return len(c.options) }
