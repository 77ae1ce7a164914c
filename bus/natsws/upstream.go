package natsws

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
)

// controlLine is the longest line of the protocol that is read from a server: INFO with the addresses of a big cluster.
const controlLine = 64 << 10

// InProcess is a NATS server of this process.
type InProcess interface {
	InProcessConn() (net.Conn, error)
}

// Upstream is the server that a [Bridge] connects to: one of this process, or one of those that URL names, separated by
// commas. Files are PEM; they are read at each connection, so that they may be renewed. Credentials in a URL are not
// used.
type Upstream struct {
	InProcess InProcess
	URL       string
	// CAFile has the authority to trust instead of the system's.
	CAFile string
	// CertFile and KeyFile are shown to a server that asks for a certificate. A server that takes the certificate for the
	// user (verify_and_map) takes every client of the bridge for it.
	CertFile string
	KeyFile  string
}

// link is a connection to a server that has said its INFO.
type link struct {
	net.Conn
	r    *bufio.Reader
	info info
}

// dial connects to the first server that can be reached.
func (u Upstream) dial(ctx context.Context) (*link, error) {
	if u.InProcess != nil {
		c, err := u.InProcess.InProcessConn()
		if err != nil {
			return nil, fmt.Errorf("connect to the server of this process: %w", err)
		}
		return u.greet(ctx, c, new(url.URL))
	}
	var errs []error
	for _, server := range strings.Split(u.URL, ",") {
		l, err := u.dialOne(ctx, strings.TrimSpace(server))
		if err == nil {
			return l, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (u Upstream) dialOne(ctx context.Context, server string) (*link, error) {
	if !strings.Contains(server, "://") {
		server = "nats://" + server
	}
	at, err := url.Parse(server)
	if err != nil {
		return nil, errors.New("the URL of a NATS server is malformed") // its text may hold a password
	}
	if at.Scheme != "nats" && at.Scheme != "tls" {
		return nil, fmt.Errorf("NATS server %s: a bridge connects by nats:// or tls://, not by %s://", at.Host, at.Scheme)
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), "4222")))
	if err != nil {
		return nil, fmt.Errorf("connect to NATS server %s: %w", at.Host, err)
	}
	l, err := u.greet(ctx, c, at)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS server %s: %w", at.Host, err)
	}
	return l, nil
}

// greet reads the server's INFO and makes the handshake of TLS where one side wants it. It closes c if it fails.
func (u Upstream) greet(ctx context.Context, c net.Conn, at *url.URL) (l *link, err error) {
	unblock := context.AfterFunc(ctx, func() { c.Close() })
	defer func() {
		if !unblock() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			c.Close()
		}
	}()
	r := bufio.NewReaderSize(c, controlLine)
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("read INFO: %w", err)
	}
	rest, ok := bytes.CutPrefix(line, []byte("INFO "))
	if !ok {
		return nil, errors.New("what answers there does not say INFO: it is no NATS server")
	}
	said, err := parseInfo(rest)
	if err != nil {
		return nil, err
	}
	wanted := at.Scheme == "tls" || u.CAFile != "" || u.CertFile != ""
	switch {
	case !said.TLSRequired && !(said.TLSAvailable && wanted):
		if wanted && u.InProcess == nil {
			return nil, errors.New("the server offers no TLS")
		}
		return &link{c, r, said}, nil
	case r.Buffered() > 0:
		return nil, errors.New("the server speaks before the handshake of TLS")
	}
	config, err := u.tls(at.Hostname())
	if err != nil {
		return nil, err
	}
	secure := tls.Client(c, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return &link{secure, bufio.NewReaderSize(secure, controlLine), said}, nil
}

func (u Upstream) tls(name string) (*tls.Config, error) {
	c := &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12}
	if u.CAFile != "" {
		pem, err := os.ReadFile(u.CAFile)
		if err != nil {
			return nil, fmt.Errorf("authority to trust: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("authority to trust: %s has no certificate", u.CAFile)
		}
	}
	if u.CertFile != "" || u.KeyFile != "" {
		cert, err := tls.LoadX509KeyPair(u.CertFile, u.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return c, nil
}
