//go:build unix

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/integration/internal/cluster"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// One server of three stores no messages. The sender gets an error, the runner logs it, and its readiness reports it.
// When a second server is back, everything continues without the third.
func TestOneServerOfThreeSaysThatItCannot(t *testing.T) {
	suite.LongForm(t)
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	r := startRunner(t, c.URL(), "r1")
	start := r.lines("runner settings")[0]
	if durability, _ := start["durability"].(string); !strings.Contains(durability, "3 replicas") {
		t.Errorf("the runner started with %v", start)
	}
	if warned := r.lines("page cache"); len(warned) > 0 {
		t.Errorf("the runner warns about one machine's page cache: %v", warned)
	}
	user := newSender(t, c.URL())
	user.run("s1", "before")
	c.Kill(0)
	c.Kill(1)
	user.cannotSend("s1")
	if reason := r.untilUnready(); !strings.Contains(reason, "store nothing") {
		t.Errorf("the runner is not ready because of %q", reason)
	}
	r.untilStalled()
	c.Start(1)
	r.untilReady()
	user.run("s1", "after")
	c.Start(0)
	c.WaitReady()
	r.checkGoesOn()
	checkEverywhere(t, c, "s1", "before", "after")
}

// One server is cut off from the other two. A runner and a sender that know only this server make no progress and get
// errors that say so, while the runner of the other servers drives all sessions. After healing all servers have the
// same logs.
func TestAServerCutOffMakesNoProgress(t *testing.T) {
	suite.LongForm(t)
	t.Parallel()
	const sessions = 12
	c := cluster.Start(t, cluster.Options{Severable: true})
	alone, rest := startRunner(t, c.URLOf(0), "alone"), startRunner(t, c.URLOf(1)+","+c.URLOf(2), "rest")
	user, cutOff := newSender(t, c.URLOf(1)), newSender(t, c.URLOf(0))
	all := func(text string) {
		for i := range sessions {
			bustest.Prompt(t, user.Session(fmt.Sprintf("s%d", i)), text)
		}
		for i := range sessions {
			user.awaitReply(fmt.Sprintf("s%d", i), text)
		}
	}
	all("before")
	c.Isolate(0)
	cutOff.cannotSend("s0")
	all("meanwhile")
	if reason := alone.untilUnready(); !strings.Contains(reason, "store nothing") {
		t.Errorf("the runner of the server that is cut off is not ready because of %q", reason)
	}
	alone.untilStalled()
	rest.untilReady() // the streams may have got their new leaders one after the other
	c.Heal(0)
	alone.untilReady()
	all("after")
	alone.checkGoesOn()
	for i := range sessions {
		checkEverywhere(t, c, fmt.Sprintf("s%d", i), "before", "meanwhile", "after")
	}
}

// sender sends prompts and follows sessions.
type sender struct {
	t *testing.T
	*client.Client
}

func newSender(t *testing.T, url string) sender {
	t.Helper()
	return sender{t, system.Client(t, system.Connect(t, url, "client"))}
}

// cannotSend checks that several concurrent senders get an error: no message was stored.
func (c sender) cannotSend(session string) {
	c.t.Helper()
	var all sync.WaitGroup
	defer all.Wait()
	for range 3 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
			defer cancel()
			_, err := c.Session(session).Send(ctx, &schemas.Prompt{Input: client.Text("lost")})
			if !errors.Is(err, jetstream.ErrNoStreamResponse) &&
				!errors.Is(err, context.DeadlineExceeded) {
				c.t.Errorf("the sender gets %v", err)
			}
		})
	}
}

func (c sender) run(session, text string) {
	c.t.Helper()
	bustest.Prompt(c.t, c.Session(session), text)
	c.awaitReply(session, text)
}

// awaitReply follows the session to the end of the run that a text has started.
func (c sender) awaitReply(session, text string) {
	c.t.Helper()
	told := false
	bustest.Until(c.t, c.Session(session), "the reply to "+text, func(e schemas.Event) bool {
		told = told || slices.Contains(system.Said([]schemas.Event{e}), text)
		return told && e.Type() == schemas.EventAgentEnd
	})
}

// checkEverywhere checks that every server has the same log, with each text at least once and in order: a text that was
// sent again because its acknowledgement was lost may be stored twice.
func checkEverywhere(t *testing.T, c *cluster.Cluster, session string, texts ...string) {
	t.Helper()
	var logs [][]schemas.Event
	for i := range c.Size() {
		store := storeOn(t, c.URLOf(i))
		system.Verify(t, store, session)
		log := system.LogOf(t, store, session)
		said := slices.Compact(system.Said(log))
		said = slices.DeleteFunc(said, func(text string) bool { return text == "lost" })
		if !slices.Equal(said, texts) {
			t.Errorf("server %d: session %s has the user messages %q, want %q", i, session, said, texts)
		}
		logs = append(logs, log)
		if len(log) != len(logs[0]) {
			t.Errorf("session %s has %d events on server %d, and %d on server 0", session, len(log), i, len(logs[0]))
		}
	}
}
