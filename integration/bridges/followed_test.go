package bridges_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/loopbus/loopbus/bus/bridge/gateway"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/integration/internal/system"
)

// logged is a log that may be read while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// delete deletes a session as soon as it is at rest.
func (r *rig) delete(session string) {
	r.t.Helper()
	d := retention.NewDeleter(r.Client, retention.Options{Store: r.Store})
	system.Eventually(r.t, "the session is deleted", func() bool {
		_, err := d.Delete(bustest.Deadline(r.t), retention.Request{Session: session})
		if err != nil && !errors.Is(err, retention.ErrBusy) {
			r.t.Fatal(err)
		}
		return err == nil
	})
}

// A session that was deleted and begins again cannot be followed on. The gateway ends the connection, and the client
// that returns gets everything of the new session.
func TestASessionThatBeginsAgain(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(r *rig, c *chat){
		"by its message": func(_ *rig, c *chat) {
			c.post("again", "chat.send", message("s1", "hello again", "k2", ""))
		},
		"by another's": func(r *rig, _ *chat) { r.Prompt(r.t, "s1", "hello again") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, log := newRig(t), new(logged)
			b := gateway.New(r.client, gateway.Options{Load: r.State, Logger: slog.New(slog.NewTextHandler(log, nil))})
			s := httptest.NewServer(b)
			t.Cleanup(func() { b.Close(); s.Close() })
			r.url = s.URL
			c := r.connected(nil)
			final := func(f frame) bool {
				return f.Event == "chat" && strings.Contains(string(f.Payload), `"state":"final"`)
			}
			if a := c.request("chat.send", message("s1", "hello", "k1", "")); !a.OK {
				t.Fatalf("chat.send: %+v", a)
			}
			c.until(final)
			r.delete("s1")
			begin(r, c)
			for ctx := bustest.Deadline(t); ; {
				_, data, err := c.ws.Read(ctx)
				if err == nil && !strings.Contains(string(data), `"chat"`) {
					continue // an answer, or a tick
				}
				if websocket.CloseStatus(err) != websocket.StatusInternalError || !strings.Contains(err.Error(), "session s1") {
					t.Fatalf("the connection ends with %v, after %.300s", err, data)
				}
				break
			}
			if !strings.Contains(log.String(), "session s1") || !strings.Contains(log.String(), "damaged") {
				t.Errorf("the log does not say why: %s", log)
			}
			r.Until(t, "s1", "the end of the new run", system.Ends(1))
			again := r.connected(nil)
			if a := again.request("sessions.messages.subscribe", map[string]any{"key": "s1"}); !a.OK {
				t.Fatalf("subscribe: %+v", a)
			}
			history := string(again.request("chat.history", map[string]any{"sessionKey": "s1"}).Payload)
			if strings.Count(history, `"role"`) != 2 || !strings.Contains(history, "hello again") {
				t.Errorf("the history is %s", history)
			}
			if a := again.request("chat.send", message("s1", "hello", "k3", "")); !a.OK {
				t.Fatalf("chat.send: %+v", a)
			}
			again.until(final)
		})
	}
}
