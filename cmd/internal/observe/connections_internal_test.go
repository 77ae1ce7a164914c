package observe

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Connections that are kept open and idle do not keep a newcomer out, and their number is bounded.
func TestIdleConnectionsAreClosedForNewOnes(t *testing.T) {
	t.Parallel()
	const most, opened = 5, 20
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config = Server(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }),
		slog.New(slog.DiscardHandler))
	limited := &connections{most: most, open: map[net.Conn]time.Time{}}
	server.Config.ConnState = limited.track
	server.Start()
	t.Cleanup(server.Close)

	closed := make(chan error, opened)
	for n := range opened {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second)) // so that a connection that stays open fails below
		fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		in := bufio.NewReader(conn)
		answer, err := http.ReadResponse(in, nil)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("connection %d: %v, %v", n, answer, err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		go func() {
			_, err := in.ReadByte()
			closed <- err
		}()
	}
	for range opened - most {
		if err := <-closed; err == nil {
			t.Error("a byte came unasked")
		}
	}
	limited.mu.Lock()
	defer limited.mu.Unlock()
	if n := len(limited.open); n > most {
		t.Errorf("%d connections are open, want at most %d", n, most)
	}
}
