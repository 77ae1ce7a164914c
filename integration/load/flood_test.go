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

// served sends prompts to sessions, one after the other, and checks that their runs start soon. It does not count the
// time that the server takes to store a prompt, because the flood saturates the stream.
func served(t *testing.T, c *bus.Conn) {
	t.Helper()
	var stored, slowest time.Duration
	for i := range others {
		s := bustest.Client(t, c).Session(fmt.Sprintf("other%d", i))
		sent := time.Now()
		bustest.Prompt(t, s, "go")
		begun := time.Now()
		stored = max(stored, begun.Sub(sent))
		bustest.Until(t, s, "the run begins", bustest.Nth(1, schemas.EventAgentStart))
		slowest = max(slowest, time.Since(begun))
	}
	t.Logf("the slowest of %d other sessions had its prompt stored after %s, and began after %s more", others, stored,
		slowest)
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

func startFlooded(t *testing.T) (url string, r *system.Runner) {
	t.Helper()
	server := system.StartServer(t, false)
	ended := make(chan string, 1000)
	answers := scripted.New(scripted.Text("done"))
	return server.ClientURL(), startRunner(t, server.ClientURL(), answers, host.DefaultCallWindow, ended)
}

// TestAFloodOfCommandsKeepsNobodyWaiting has one client send commands to one session as fast as the server accepts
// them.
// The server refuses those beyond a thousand, and the runs of other sessions start in time.
func TestAFloodOfCommandsKeepsNobodyWaiting(t *testing.T) {
	url, r := startFlooded(t)
	end := flood(t, url, 1<<30, func(int) string { return "agent.cmd.s1.abort" }, []byte("{}"))
	refused := false
	for limit := time.Now().Add(system.Deadline); !refused && time.Now().Before(limit); {
		_, err := r.Conn.JetStream().Publish(t.Context(), "agent.cmd.s1.abort", []byte("{}"))
		refused = natsio.NoRoom(err)
	}
	if !refused {
		t.Fatal("no command of the flood was refused")
	}
	served(t, r.Conn)
	t.Logf("%d commands sent", end(true))
}

// TestAFloodOfLargePromptsKeepsNobodyWaiting does the same with prompts of a megabyte. The runner must not lose its
// connection, and rejects each prompt once.
func TestAFloodOfLargePromptsKeepsNobodyWaiting(t *testing.T) {
	url, r := startFlooded(t)
	data := bytes.Repeat([]byte("x"), 1_000_000)
	const many = 100
	end := flood(t, url, many, func(int) string { return "agent.cmd.s1.prompt" }, data)
	system.Eventually(t, "the flood has come", func() bool { return bustest.Queued(t, r.Conn) > many/4 })
	served(t, r.Conn)
	left := bustest.Queued(t, r.Conn)
	system.Eventually(t, "all are out of the inbox", func() bool { return bustest.Queued(t, r.Conn) == 0 })
	t.Logf("%d prompts sent, of which %d were left", end(false), left)
	if n := r.Conn.NATS().Stats().Reconnects; n != 0 {
		t.Errorf("the runner's connection was lost %d times", n)
	}
}

// TestAFloodOfResultsKeepsNobodyWaiting has a worker send results for sessions that do not exist.
func TestAFloodOfResultsKeepsNobodyWaiting(t *testing.T) {
	url, r := startFlooded(t)
	const many = 20_000
	result := []byte(`{"call":"c1","content":[{"type":"text","text":"x"}]}`)
	begun := time.Now()
	end := flood(t, url, many, func(i int) string { return fmt.Sprintf("agent.cmd.none%d.tool_result", i) }, result)
	served(t, r.Conn)
	sent := end(false)
	system.Eventually(t, "all are out of the inbox", func() bool { return bustest.Queued(t, r.Conn) == 0 })
	t.Logf("%d results were out of the inbox after %s", sent, time.Since(begun))
	if n := bustest.Messages(t, r.Conn, schemas.StreamDead); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}
