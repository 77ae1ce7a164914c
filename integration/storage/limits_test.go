//go:build unix

package storage_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/rehearsal"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// codeStoreFailed is the server's answer to a message for which a stream has no room.
const codeStoreFailed jetstream.ErrorCode = 10077

func full(err error) bool {
	var refused *jetstream.APIError
	return errors.As(err, &refused) && refused.ErrorCode == codeStoreFailed &&
		strings.Contains(err.Error(), "maximum bytes")
}

// A full inbox refuses commands with an error. Once a runner is live, the acknowledged commands are answered, a timer
// that was due in the meantime arrives, and the inbox has room again.
func TestAFullInbox(t *testing.T) {
	t.Parallel()
	server := system.StartServer(t, false)
	conn := system.Connect(t, server.ClientURL(), "sender")
	if err := streams.Setup(t.Context(), conn, streams.Options{CommandMaxBytes: 64 << 10}); err != nil {
		t.Fatal(err)
	}
	acked, sent := map[string][]string{}, uint64(0)
	for {
		session, text := fmt.Sprintf("s%d", sent%5), fmt.Sprint(sent, strings.Repeat(" word", 200))
		_, err := conn.JetStream().Publish(t.Context(), conn.Subjects().Command(session, schemas.CommandPrompt), []byte(text))
		if full(err) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		acked[session] = append(acked[session], text)
		sent++
	}
	soon := time.Now().Add(100 * time.Millisecond)
	if err := bus.NewTimers(conn).Schedule(t.Context(), "s0", soon,
		schemas.Timer{Name: schemas.TimerRunDeadline, RunID: "r1"}); err != nil {
		t.Fatal(err)
	}
	s := system.Start(t, server.ClientURL(), system.Options{Model: &rehearsal.Model{}})
	settled(t, s, acked)
	system.Eventually(t, "the timer came", func() bool {
		stream, err := conn.JetStream().Stream(t.Context(), schemas.StreamCommands)
		return err == nil && stream.CachedInfo().State.LastSeq == sent+1
	})
	if err := publish(t, s, "s0", "one more"); err != nil {
		t.Errorf("the inbox has room, but the sender gets %v", err)
	}
	s.EmptyInbox(t)
}

// A full log stops its sessions: the stored events are valid, the runner logs why it waits, and commands stay in the
// inbox. Once the log has room, the sessions continue.
func TestAFullLog(t *testing.T) {
	t.Parallel()
	var j journal
	s := system.StartAlone(t, system.Options{Model: &rehearsal.Model{}, Logger: j.logger(),
		Streams: streams.Options{EventMaxBytes: 20 << 10}})
	acked := map[string][]string{}
	for i := range 20 {
		session, text := fmt.Sprintf("s%d", i%2), fmt.Sprint("hello ", i)
		if err := publish(t, s, session, text); err != nil {
			t.Fatal(err)
		}
		acked[session] = append(acked[session], text)
	}
	system.Eventually(t, "the runner says that it waits",
		func() bool { return j.says("append refused", "maximum bytes exceeded") > 0 })
	for session := range acked {
		s.Verify(t, session)
	}
	if s.Messages(t, schemas.StreamCommands, "") == 0 {
		t.Error("no command waits")
	}
	if err := streams.Setup(t.Context(), s.Client, streams.Options{EventMaxBytes: 10 << 20}); err != nil {
		t.Fatal(err)
	}
	settled(t, s, acked)
}

// A call for which the queue has no room does not get an error as its result: the runner tries again until there is
// room, and the tool runs once.
func TestAFullToolQueue(t *testing.T) {
	t.Parallel()
	var j journal
	model := scripted.New(scripted.Calls("", schemas.ToolCall{Name: "echo", Arguments: noArguments}),
		scripted.Text("done"))
	s := system.StartAlone(t, system.Options{Model: model, Logger: j.logger(),
		Streams: streams.Options{ToolMaxBytes: 4 << 10}})
	var err error
	for i := 0; err == nil; i++ {
		subject := s.Client.Subjects().Tool("absent", "x", fmt.Sprintf("c%d", i))
		_, err = s.Client.JetStream().Publish(t.Context(), subject, make([]byte, 100))
	}
	if !full(err) {
		t.Fatal(err)
	}
	if err := publish(t, s, "s1", "go"); err != nil {
		t.Fatal(err)
	}
	system.Eventually(t, "the runner says that it waits",
		func() bool { return j.says("dispatch call", "maximum bytes exceeded") > 0 })
	stream, err := s.Client.JetStream().Stream(t.Context(), schemas.StreamTools)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject(s.Client.Subjects().Tool("absent", "x",
		"*"))); err != nil {
		t.Fatal(err)
	}
	s.Until(t, "s1", "the end of the run", system.Ends(1)) // an empty inbox does not mean that the call's queue is empty
	settled(t, s, map[string][]string{"s1": {"go"}})
	ends := system.DataOf[*schemas.ToolExecutionEnd](s.LogOf(t, "s1"))
	if len(ends) != 1 || ends[0].IsError {
		t.Errorf("results %+v", ends)
	}
}

// The log does not refer to a payload for which the object store had no room, although the store may list it with half
// of its data. Once there is room, the session continues.
func TestAFullObjectStore(t *testing.T) {
	t.Parallel()
	var j journal
	big := tools.Tool{
		ToolDefinition: schemas.ToolDefinition{Name: "big"},
		Execute: func(context.Context, tools.Call) (schemas.ToolResult, error) {
			return schemas.TextResult(strings.Repeat("0123456789", 40<<10)), nil
		},
	}
	model := scripted.New(scripted.Calls("", schemas.ToolCall{Name: "big", Arguments: noArguments}), scripted.Text("done"))
	s := system.StartAlone(t, system.Options{Model: model, Tools: []tools.Tool{big}, Logger: j.logger(),
		Streams: streams.Options{BlobMaxBytes: 200 << 10}})
	if err := publish(t, s, "s1", "go"); err != nil {
		t.Fatal(err)
	}
	system.Eventually(t, "the runner has tried again",
		func() bool { return j.says("session given up", "maximum bytes exceeded") > 2 })
	s.Verify(t, "s1")
	if err := streams.Setup(t.Context(), s.Client, streams.Options{BlobMaxBytes: 10 << 20}); err != nil {
		t.Fatal(err)
	}
	settled(t, s, map[string][]string{"s1": {"go"}})
	if report := s.Verify(t, "s1"); report.Blobs != 2 {
		t.Errorf("%d payloads are in the object store", report.Blobs)
	}
}
