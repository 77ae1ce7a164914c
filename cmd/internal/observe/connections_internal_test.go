package observe

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// limited returns a server with a limit of connections, and a function that opens one and sends text.
func limited(t *testing.T, most int, handler http.HandlerFunc) (c *connections, open func(text string) *bufio.Reader) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.Config = Server(handler, slog.New(slog.DiscardHandler))
	server.Config.Handler = handler
	c = limit(server.Config, most)
	server.Start()
	t.Cleanup(server.Close)
	return c, func(text string) *bufio.Reader {
		t.Helper()
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second)) // so that a connection that stays open fails below
		_, _ = io.WriteString(conn, text)
		return bufio.NewReader(conn)
	}
}

const request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

// answered fails the test if no answer comes.
func answered(t *testing.T, in *bufio.Reader) {
	t.Helper()
	answer, err := http.ReadResponse(in, nil)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", answer, err)
	}
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
}

// Connections that wait for a request do not keep a newcomer out, whatever they have sent before; and their number is
// bounded.
func TestWaitingConnectionsAreClosedForNewOnes(t *testing.T) {
	t.Parallel()
	const half = len(request) / 2
	for name, c := range map[string]struct {
		sent     string
		answered bool
	}{
		"idle": {request, true}, "silent": {"", false}, "half a request": {request[:half], false},
		"a request without its body": {"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n", false},
		"a body that is waited for":  {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const most, opened = 5, 20
			begun := make(chan bool, opened)
			limits, open := limited(t, most, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					begun <- true
					_, _ = io.Copy(io.Discard, r.Body)
				}
				fmt.Fprint(w, "ok")
			})
			closed := make(chan error, opened)
			for range opened {
				in := open(c.sent)
				switch {
				case c.answered:
					answered(t, in)
				case strings.HasPrefix(c.sent, http.MethodPost):
					select {
					case <-begun:
					case <-time.After(10 * time.Second):
						t.Fatal("a request is not handled")
					}
				}
				go func() {
					_, err := in.ReadByte()
					closed <- err
				}()
			}
			answered(t, open(request))
			for range opened + 1 - most {
				if err := <-closed; err == nil {
					t.Error("a byte came unasked")
				}
			}
			limits.mu.Lock()
			defer limits.mu.Unlock()
			if n := len(limits.open); n > most {
				t.Errorf("%d connections are open, want at most %d", n, most)
			}
		})
	}
}

// Clients that do not read their answers do not keep a newcomer out, and their connections end.
func TestDeafConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	const most = 3
	begun, ended := make(chan bool, most), make(chan error, most)
	large := make([]byte, 64<<20) // more than the buffers of a connection
	_, open := limited(t, most, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			begun <- true
			_, err := w.Write(large)
			ended <- err
			return
		}
		fmt.Fprint(w, "ok")
	})
	for range most {
		open("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
		<-begun
	}
	for deadline := time.Now().Add(10 * time.Second); ; { // the writes are about to begin
		if _, err := open(request).ReadByte(); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a newcomer is kept out")
		}
	}
	if err := <-ended; err == nil {
		t.Error("an answer that nobody has read was accepted")
	}
}

// A client has a limited time to accept a part of an answer, unless the handler sets another.
func TestAnswersAreAcceptedInTime(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"default": false, "own": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan error, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				r := &response{ResponseWriter: w, control: http.NewResponseController(w), limit: 50 * time.Millisecond,
					writing: func(bool) {}}
				if own {
					r.limit = time.Hour
					_ = http.NewResponseController(r).SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
				}
				_, err := r.Write(make([]byte, 64<<20))
				ended <- err
			}))
			t.Cleanup(server.Close)
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, request)
			select {
			case err := <-ended:
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error(err)
				}
			case <-time.After(10 * time.Second):
				t.Error("the handler still writes")
			}
		})
	}
}

// A connection whose request is handled is not closed for a newcomer, who is refused.
func TestBusyConnectionsStay(t *testing.T) {
	t.Parallel()
	const most = 3
	begun, end := make(chan bool), make(chan bool)
	_, open := limited(t, most, func(w http.ResponseWriter, _ *http.Request) {
		begun <- true
		<-end
		fmt.Fprint(w, "ok")
	})
	var busy []*bufio.Reader
	for range most {
		busy = append(busy, open(request))
		<-begun
	}
	if _, err := open(request).ReadByte(); err == nil {
		t.Error("a connection beyond the limit got an answer")
	}
	close(end)
	for _, in := range busy {
		answered(t, in)
	}
}

func TestConnectionsOfAProcess(t *testing.T) {
	t.Parallel()
	for files, want := range map[uint64]int{0: 1, 256: 64, 1024: 256, 1 << 20: maxConnections, math.MaxUint64: 1024} {
		if got := connectionsOf(files); got != want {
			t.Errorf("%d connections for %d files, want %d", got, files, want)
		}
	}
}
