package dial_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/headerlimit"
)

// certificate returns one for localhost, and the file of the authority that has issued it, which is itself.
func certificate(t *testing.T) (cert tls.Certificate, ca string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, ca
}

func start(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	o.Host, o.Port, o.NoLog, o.NoSigs = "127.0.0.1", server.RANDOM_PORT, true, true
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server does not start")
	}
	return s
}

// Headers are limited however a connection is made, and TLS is what it is with nats.go.
func TestHeadersAreLimited(t *testing.T) {
	t.Parallel()
	cert, ca := certificate(t)
	_, other := certificate(t)
	secure := server.Options{TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}}, TLSTimeout: 30}
	available, first := secure, secure
	available.AllowNonTLS, first.TLSHandshakeFirst = true, true
	ours, others := dial.Settings{CAFile: ca, TLSFirst: true}, dial.Settings{CAFile: other, TLSFirst: true}
	for name, c := range map[string]struct {
		server   server.Options
		scheme   string
		settings dial.Settings
		tls      bool
		fails    error
	}{
		"plain":                 {scheme: "nats"},
		"required":              {server: secure, scheme: "nats", settings: dial.Settings{CAFile: ca}, tls: true},
		"by the scheme":         {server: available, scheme: "tls", settings: dial.Settings{CAFile: ca}, tls: true},
		"available":             {server: available, scheme: "nats"},
		"first":                 {server: first, scheme: "nats", settings: ours, tls: true},
		"of somebody else":      {server: secure, scheme: "nats", settings: dial.Settings{CAFile: other}, fails: nats.ErrTLS},
		"of nobody known":       {server: secure, scheme: "nats", fails: nats.ErrTLS},
		"first, somebody else":  {server: first, scheme: "nats", settings: others, fails: nats.ErrTLS},
		"wanted, and not there": {scheme: "tls", fails: nats.ErrSecureConnWanted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, c.server)
			opts, err := c.settings.Options("test", nil)
			if err != nil {
				t.Fatal(err)
			}
			url := fmt.Sprintf("%s://localhost:%d", c.scheme, s.Addr().(*net.TCPAddr).Port)
			nc, err := nats.Connect(url, append(opts, nats.Timeout(30*time.Second))...)
			if c.fails != nil {
				if !errors.Is(err, c.fails) {
					t.Errorf("got %v, want %v", err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if list, err := s.Connz(nil); err != nil || len(list.Conns) != 1 || (list.Conns[0].TLSVersion != "") != c.tls {
				t.Errorf("connections %+v, %v", list.Conns, err)
			}
			wantLimited(t, nc)
		})
	}
	t.Run("in this process", func(t *testing.T) {
		t.Parallel()
		nc, err := nats.Connect("", nats.InProcessServer(dial.Limited(start(t, server.Options{}))))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		wantLimited(t, nc)
	})
}

// wantLimited sends and receives messages with more and more headers.
func wantLimited(t *testing.T, nc *nats.Conn) {
	t.Helper()
	sub, err := nc.SubscribeSync("s")
	if err != nil {
		t.Fatal(err)
	}
	payload := strings.Repeat("p", 100_000)
	for _, headers := range []int{0, 1, headerlimit.Most, headerlimit.Most + 1, 10_000} {
		m := &nats.Msg{Subject: "s", Header: nats.Header{}, Data: []byte(payload)}
		for n := range headers {
			m.Header.Set(fmt.Sprintf("k%d", n), "v")
		}
		if err := nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
		got, err := sub.NextMsg(30 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		left := headers > headerlimit.Most
		if string(got.Data) != payload || headerlimit.LeftOut(got.Header) != left || !left && len(got.Header) != headers {
			t.Errorf("%d headers: %d came, left out %v, and %d bytes", headers, len(got.Header),
				headerlimit.LeftOut(got.Header), len(got.Data))
		}
	}
}
