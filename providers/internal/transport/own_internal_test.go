package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// swallowed is a connection from which nothing arrives any more, and that takes everything, as one that a router on
// the way has forgotten.
type swallowed struct {
	net.Conn
	dead   *atomic.Bool
	closed chan struct{}
}

func (s swallowed) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if s.dead.Load() {
		<-s.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (s swallowed) Write(p []byte) (int, error) {
	if s.dead.Load() {
		return len(p), nil
	}
	return s.Conn.Write(p)
}

func (s swallowed) Close() error {
	close(s.closed)
	return s.Conn.Close()
}

// A request on an HTTP/2 connection that is dead fails after a while, and the next one uses another connection.
func TestADeadConnectionIsReplaced(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	var dead atomic.Bool // of the first connection
	dials := 0
	base := limited(&http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			if dials++; dials > 1 || err != nil {
				return c, err
			}
			return swallowed{c, &dead, make(chan struct{})}, nil
		}}, 200*time.Millisecond)
	defer base.CloseIdleConnections()
	ask := func() (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := base.RoundTrip(r)
		if err != nil {
			return "", err
		}
		raw, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		return string(raw), err
	}
	if got, err := ask(); got != "HTTP/2.0" || err != nil {
		t.Fatal(got, err)
	}
	dead.Store(true)
	begun := time.Now()
	if got, err := ask(); err == nil {
		t.Errorf("a dead connection has answered %q", got)
	}
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("it fails after %s", took)
	}
	if got, err := ask(); got != "HTTP/2.0" || err != nil || dials != 2 {
		t.Errorf("then: %q, %v, over connection %d", got, err, dials)
	}
}

// A server that sends faster than a response is read does not fill the memory by HTTP/2.
func TestLittleIsTakenAhead(t *testing.T) {
	t.Parallel()
	sent := make(chan int, 1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		out := http.NewResponseController(w)
		n := 0
		for piece := make([]byte, 16<<10); n < 8<<20; n += len(piece) {
			_ = out.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
			if _, err := w.Write(piece); err != nil || out.Flush() != nil {
				break
			}
		}
		sent <- n
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	base := limited(&http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}, silence)
	defer base.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := base.RoundTrip(r)
	if err != nil || resp.ProtoMajor != 2 {
		t.Fatal(resp, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if n := <-sent; n > 2*ahead {
		t.Errorf("%d bytes were taken, want %d", n, ahead)
	}
}
