//go:build unix

package load_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// flood publishes n messages without waiting for their acknowledgements, or until it is stopped: at most 40,000 per
// second. More would measure the throughput of a server's connection, not the runner.
func flood(t *testing.T, url string, n int, subject func(i int) string, data []byte) (end func(cut bool) (sent int)) {
	t.Helper()
	c := system.Connect(t, url, "flood").NATS()
	var over atomic.Bool
	done := make(chan int)
	go func() {
		i := 0
		for ; i < n && !over.Load(); i++ {
			if i%burst == burst-1 {
				time.Sleep(pause)
			}
			if err := c.Publish(subject(i), data); err != nil {
				break
			}
		}
		_ = c.FlushTimeout(system.Deadline)
		done <- i
	}()
	return func(cut bool) int { over.Store(cut); return <-done }
}

// begins sends prompts to sessions, one after the other. It returns how long the server took at the most to store one,
// and its run to begin after that.
func begins(t *testing.T, c *bus.Conn, name string) (stored, slowest time.Duration) {
	t.Helper()
	for i := range others {
		s := bustest.Client(t, c).Session(fmt.Sprintf("%s%d", name, i))
		sent := time.Now()
		bustest.Prompt(t, s, "go")
		begun := time.Now()
		stored = max(stored, begun.Sub(sent))
		bustest.Until(t, s, "the run begins", bustest.Nth(1, schemas.EventAgentStart))
		slowest = max(slowest, time.Since(begun))
	}
	return stored, slowest
}

// served checks that runs of other sessions start soon. It does not count the time that the server takes to store a
// prompt, because the flood saturates the stream.
func (f flooded) served(t *testing.T) {
	t.Helper()
	stored, slowest := begins(t, f.Conn, "other")
	t.Logf("the slowest of %d other sessions had its prompt stored after %s, and began after %s more; before the flood %s",
		others, stored, slowest, f.calm)
	if slowest > patience {
		t.Errorf("the run of another session started after %s, want %s at most", slowest, patience)
	}
}

const (
	burst    = 400 // messages of a flood, every pause
	pause    = 10 * time.Millisecond
	others   = 10              // sessions besides the flooded one
	patience = 2 * time.Second // that the start of their runs may take
)

// flooded is a runner with a server that is to be flooded.
type flooded struct {
	*system.Runner
	url  string
	calm time.Duration // how long the start of a run took at the most before, to tell a slow machine from a slow runner
}

func startFlooded(t *testing.T) flooded {
	t.Helper()
	server := system.StartServer(t, false)
	ended := make(chan string, 1000)
	answers := scripted.New(scripted.Text("done"))
	r := startRunner(t, server.ClientURL(), answers, host.DefaultCallWindow, ended)
	_, calm := begins(t, r.Conn, "calm")
	return flooded{r, server.ClientURL(), calm}
}

// TestAFloodOfCommandsKeepsNobodyWaiting has one client send commands to one session as fast as the server accepts
// them.
// The server refuses those beyond a thousand, and the runs of other sessions start in time.
func TestAFloodOfCommandsKeepsNobodyWaiting(t *testing.T) {
	f := startFlooded(t)
	end := flood(t, f.url, 1<<30, func(int) string { return "agent.cmd.s1.abort" }, []byte("{}"))
	refused := false
	for limit := time.Now().Add(system.Deadline); !refused && time.Now().Before(limit); {
		_, err := f.Conn.JetStream().Publish(t.Context(), "agent.cmd.s1.abort", []byte("{}"))
		refused = natsio.NoRoom(err)
	}
	if !refused {
		t.Fatal("no command of the flood was refused")
	}
	f.served(t)
	t.Logf("%d commands sent", end(true))
}

// TestAFloodOfLargePromptsKeepsNobodyWaiting does the same with prompts of a megabyte. The runner must not lose its
// connection, and rejects each prompt once.
func TestAFloodOfLargePromptsKeepsNobodyWaiting(t *testing.T) {
	suite.LongForm(t)
	f := startFlooded(t)
	data := bytes.Repeat([]byte("x"), 1_000_000)
	const many = 100
	end := flood(t, f.url, many, func(int) string { return "agent.cmd.s1.prompt" }, data)
	system.Eventually(t, "the flood has come", func() bool { return bustest.Queued(t, f.Conn) > many/4 })
	f.served(t)
	left := bustest.Queued(t, f.Conn)
	system.Eventually(t, "all are out of the inbox", func() bool { return bustest.Queued(t, f.Conn) == 0 })
	t.Logf("%d prompts sent, of which %d were left", end(false), left)
	if n := f.Conn.NATS().Stats().Reconnects; n != 0 {
		t.Errorf("the runner's connection was lost %d times", n)
	}
}

// TestAFloodOfResultsKeepsNobodyWaiting has a worker send results for sessions that do not exist.
func TestAFloodOfResultsKeepsNobodyWaiting(t *testing.T) {
	suite.LongForm(t)
	f := startFlooded(t)
	const many = 20_000
	result := []byte(`{"call":"c1","content":[{"type":"text","text":"x"}]}`)
	begun := time.Now()
	end := flood(t, f.url, many, func(i int) string { return fmt.Sprintf("agent.cmd.none%d.tool_result", i) }, result)
	f.served(t)
	sent := end(false)
	system.Eventually(t, "all are out of the inbox", func() bool { return bustest.Queued(t, f.Conn) == 0 })
	t.Logf("%d results were out of the inbox after %s", sent, time.Since(begun))
	if n := bustest.Messages(t, f.Conn, schemas.StreamDead); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}
