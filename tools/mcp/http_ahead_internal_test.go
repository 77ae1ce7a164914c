package mcp

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

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
	base := newTransport()
	base.TLSClientConfig = &tls.Config{RootCAs: roots}
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
