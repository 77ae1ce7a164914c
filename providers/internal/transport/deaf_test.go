package transport_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/transport"
)

// deaf is the HTTP/2 connection of a server that begins to answer a request, and then sends PING frames, which have to
// be answered, and reads nothing. It returns nil once the client reads no more, because it waits for the server.
func deaf(c net.Conn) error {
	f := http2.NewFramer(c, c)
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return err
	}
	if err := f.WriteSettings(); err != nil {
		return err
	}
	for asked, agreed := false, false; !asked || !agreed; {
		frame, err := f.ReadFrame()
		if err != nil {
			return err
		}
		switch frame := frame.(type) {
		case *http2.HeadersFrame:
			asked = true
		case *http2.SettingsFrame:
			agreed = agreed || frame.IsAck()
		}
	}
	var header bytes.Buffer
	if err := hpack.NewEncoder(&header).WriteField(hpack.HeaderField{Name: ":status", Value: "200"}); err != nil {
		return err
	}
	err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: header.Bytes(), EndHeaders: true})
	for err == nil {
		if err = c.SetWriteDeadline(time.Now().Add(time.Second)); err == nil {
			err = f.WritePing(false, [8]byte{1})
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// deafServer returns a request with a transport for a server that is deaf to it, and what [deaf] returns.
func deafServer(t *testing.T) (req *providers.Request, stuck <-chan error) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.EnableHTTP2 = true
	s.StartTLS()
	config, roots := s.TLS.Clone(), x509.NewCertPool()
	roots.AddCert(s.Certificate())
	s.Close()
	here, there := net.Pipe() // which has no buffers
	ended := make(chan error, 1)
	go func() { ended <- deaf(tls.Server(there, config)) }()
	base := &http.Transport{ForceAttemptHTTP2: true,
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c := tls.Client(here, &tls.Config{RootCAs: roots, ServerName: "example.com", NextProtos: []string{"h2"}})
			return c, c.HandshakeContext(ctx)
		}}
	t.Cleanup(func() {
		_ = there.Close()
		base.CloseIdleConnections()
	})
	return &providers.Request{Model: new(providers.Model), HTTP: &http.Client{Transport: base}}, ended
}

// A server that has its client wait for it to read keeps no request beyond its context.
func TestAServerThatReadsNothingHoldsNoRequest(t *testing.T) {
	req, stuck := deafServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := get(ctx, transport.New(req), "https://example.com")
		ended <- err
	}()
	if err := bustest.Within(t, stuck); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := bustest.Within(t, ended); !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}
