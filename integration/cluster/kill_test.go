//go:build unix

package cluster_test

import (
	"context"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/integration/internal/cluster"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// Whichever server is killed, the leader of a stream included, all acknowledged messages are stored, sessions continue,
// and commands that clients send in the meantime are acknowledged without the killed server.
func TestKillingALeaderLosesNothing(t *testing.T) {
	t.Parallel()
	streams := []string{schemas.StreamEvents, schemas.StreamCommands, schemas.StreamTools}
	if !*allLeaders {
		streams = streams[:1]
	}
	for _, stream := range streams {
		t.Run(stream, func(t *testing.T) {
			t.Parallel()
			c := cluster.Start(t, cluster.Options{})
			l := startLoad(t, c, 6)
			stop := make(chan struct{})
			finish := system.Serve(t, func(context.Context) error { l.speak(t, stop); return nil })
			l.underWay(t, 5)
			leader := c.LeaderOf(l.Client, stream)
			c.Kill(leader)
			l.underWay(t, 5)
			close(stop)
			finish()
			c.Start(leader)
			c.WaitReady()
			l.check(t, c)
		})
	}
}

// When all servers are killed at once, everything in their memory is lost: consumers and their state.
func TestKillingAllServersLosesNothing(t *testing.T) {
	suite.LongForm(t)
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	l := startLoad(t, c, 6)
	stop := make(chan struct{})
	finish := system.Serve(t, func(context.Context) error { l.speak(t, stop); return nil })
	l.underWay(t, 5)
	for i := range c.Size() {
		c.Kill(i)
	}
	for i := range c.Size() {
		c.Start(i)
	}
	c.WaitReady()
	l.underWay(t, 5)
	close(stop)
	finish()
	l.check(t, c)
}
