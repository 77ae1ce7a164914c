//go:build unix

package load_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/integration/internal/process"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// crowdModel answers the prompt "long" after a minute, and every other prompt after a shorter time.
const crowdModel = `{"scripts":[
 {"match":"^long","loop":true,"responses":[{"events":[{"type":"start"},{"type":"done","delayMs":60000}],
   "message":{"content":[{"type":"text","text":"at last"}],"stopReason":"stop"}}]},
 {"loop":true,"responses":[{"events":[{"type":"start"},{"type":"done","delayMs":%d}],
   "message":{"content":[{"type":"text","text":"done"}],"stopReason":"stop"}}]}]}`

// BenchmarkCrowd sends prompts to 5,000 sessions of one runner, a separate process, at the same time. It measures how
// long another session's prompt then waits for its first event, how long the abort of an earlier session takes, how
// long all sessions take together, and the maximum memory of the runner's process.
func BenchmarkCrowd(b *testing.B) {
	for _, reply := range []time.Duration{0, 2 * time.Second} {
		b.Run("reply="+reply.String(), func(b *testing.B) {
			for b.Loop() {
				crowd(b, reply)
			}
		})
	}
}

func crowd(b *testing.B, reply time.Duration) {
	const many = 5000
	dir, server := b.TempDir(), system.StartServer(b, false)
	if err := process.Build(dir, "cmd/runner"); err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(dir, "script.json")
	if err := os.WriteFile(file, fmt.Appendf(nil, crowdModel, reply.Milliseconds()), 0o600); err != nil {
		b.Fatal(err)
	}
	c := system.Connect(b, server.ClientURL(), "client")
	runner := spawn(b, process.Command{Name: "runner", Path: filepath.Join(dir, "runner"), Dir: dir,
		Log: filepath.Join(dir, "runner.log"), Env: []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir},
		Args: []string{"serve", "--id", "runner", "--nats", server.ClientURL(), "--model", "scripted", "--script", file,
			"--http", "off"}})
	first := func(session string) <-chan struct{} { return nextEvent(b, c, session) }
	system.Eventually(b, "the inbox is there", func() bool {
		_, err := c.JetStream().Stream(b.Context(), schemas.StreamCommands)
		return err == nil
	})
	old := first("old")
	send(b, c, "old", schemas.CommandPrompt, "long")
	await(b, old, 1, "event of the old session")

	var events atomic.Int64
	end := []byte(`"type":"` + schemas.CloudEventType(schemas.EventAgentEnd) + `"`)
	ended := make(chan struct{})
	sub, err := c.NATS().Subscribe(c.Subjects().LiveEvent("*"), func(m *nats.Msg) {
		if bytes.Contains(m.Data, end) && events.Add(1) == many {
			close(ended)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	begun := time.Now()
	for i := range many {
		msg := &nats.Msg{Subject: c.Subjects().Command(fmt.Sprintf("crowd-%d", i), schemas.CommandPrompt), Data: []byte("go")}
		if _, err := c.JetStream().PublishMsgAsync(msg); err != nil {
			b.Fatal(err)
		}
	}
	await(b, c.JetStream().PublishAsyncComplete(), 1, "all are stored")
	newcomer, aborted := first("newcomer"), first("old")
	asked := time.Now()
	send(b, c, "old", schemas.CommandAbort, "{}")
	send(b, c, "newcomer", schemas.CommandPrompt, "go")
	await(b, aborted, 1, "event of the abort")
	b.ReportMetric(float64(time.Since(asked).Milliseconds()), "ms-to-abort")
	await(b, newcomer, 1, "event of the newcomer")
	b.ReportMetric(float64(time.Since(asked).Milliseconds()), "ms-to-newcomer")
	await(b, ended, 1, "all have ended")
	b.ReportMetric(time.Since(begun).Seconds(), "s-for-all")
	_, peak := (&apart{runner: runner.PID()}).memory(b)
	b.ReportMetric(peak, "runner-peak-MiB")
	b.ReportMetric(0, "ns/op")
}

// nextEvent returns a channel that gets a value when the next event of a session is stored.
func nextEvent(b *testing.B, c *bus.Conn, session string) <-chan struct{} {
	b.Helper()
	got := make(chan struct{}, 1)
	sub, err := c.NATS().Subscribe(c.Subjects().LiveEvent(session), func(*nats.Msg) {
		select {
		case got <- struct{}{}:
		default:
		}
	})
	if err == nil {
		err = c.NATS().Flush()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sub.Unsubscribe() })
	return got
}

func send(b *testing.B, c *bus.Conn, session string, kind schemas.CommandKind, payload string) {
	b.Helper()
	if _, err := c.JetStream().Publish(b.Context(), c.Subjects().Command(session, kind), []byte(payload)); err != nil {
		b.Fatal(err)
	}
}
