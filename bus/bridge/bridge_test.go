package bridge_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/schemas"
)

func TestMain(m *testing.M) { bustest.Main(m) }

// A client that does not read ends its own stream and nothing else.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		stream := bridge.NewEventStream(w)
		defer stream.End()
		bridge.SetLimit(stream, 50*time.Millisecond)
		data := []byte(strings.Repeat("x", 1<<20))
		for range 256 {
			if err := stream.Send("1", "event", data); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}))
	t.Cleanup(s.Close)
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	select {
	case err = <-ended:
	case <-bustest.Deadline(t).Done():
		t.Fatal("the stream waits for its reader")
	}
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("the stream ends with %v", err)
	}
}

// Foreign ids map to valid ones: always to the same one, and different ids to different ones.
func TestIDs(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, id := range []string{"s1", "", "a b", "a.b", "agent:main:main", strings.Repeat("x", 65), "ü", "x\ny", "cmd-1",
		"result/c1", strings.Repeat("y", 129), "\xff"} {
		session, command := bridge.SessionID(id), bridge.CommandID(id)
		if err := schemas.CheckSession(session); err != nil || session != bridge.SessionID(id) {
			t.Errorf("session of %q: %q, %v", id, session, err)
		}
		if command == "" || len(command) > schemas.MaxCommandID || strings.HasPrefix(command, "cmd-") ||
			strings.HasPrefix(command, "result/") || strings.Contains(command, "\n") {
			t.Errorf("command of %q: %q", id, command)
		}
		if before, ok := seen[session]; ok {
			t.Errorf("%q and %q are both session %q", before, id, session)
		}
		seen[session] = id
	}
	if bridge.SessionID("s1") != "s1" || bridge.CommandID("a b") != "a b" {
		t.Error("a legal id was changed")
	}
	for _, id := range []string{"cmd-1", "timer-a-1", "result/c1", "given-up/p1", "subagent/s1/c1/n"} {
		_, err := codec.DecodeCommand("s1", schemas.CommandPrompt, nats.Header{"Nats-Msg-Id": {bridge.CommandID(id)}},
			[]byte("hello"), "cmd-1", time.Now())
		if err != nil {
			t.Errorf("%q becomes %q, which is refused: %v", id, bridge.CommandID(id), err)
		}
	}
}
