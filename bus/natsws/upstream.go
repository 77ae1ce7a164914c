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

// controlLine is the longest protocol line read from a server: INFO with the addresses of a large cluster.
const controlLine = 64 << 10

// InProcess is a NATS server in this process.
type InProcess interface {
	InProcessConn() (net.Conn, error)
}

// Upstream is the server that a [Bridge] connects to: the one in this process, or the first of the comma-separated
// URLs that can be reached. The PEM files are read for each connection, so that they can be renewed. Credentials in a
// URL are ignored.
type Upstream struct {
	InProcess InProcess
	URL       string
	// CAFile has the certificate authority to trust instead of the system's.
	CAFile string
	// CertFile and KeyFile are presented to a server that requests a certificate. A server that maps certificates to
	// users (verify_and_map) treats every client of the bridge as that user.
	CertFile string
	KeyFile  string
}

// link is a connection to a server that has sent its INFO.
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
		return nil, errors.New("the URL of a NATS server is malformed") // do not quote it: it may contain a password
	}
	if at.Scheme != "nats" && at.Scheme != "tls" {
		return nil, fmt.Errorf("NATS server %s: a bridge supports nats:// and tls://, not %s://", at.Host, at.Scheme)
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

// greet reads the server's INFO and makes the TLS handshake if either side requires it. On failure it closes c.
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
		return nil, errors.New("not a NATS server: it did not send INFO")
	}
	said, err := parseInfo(rest)
	if err != nil {
		return nil, err
	}
	wanted := at.Scheme == "tls" || u.CAFile != "" || u.CertFile != ""
	switch {
	case !said.TLSRequired && !(said.TLSAvailable && wanted):
		if wanted && u.InProcess == nil {
			return nil, errors.New("the server does not support TLS")
		}
		return &link{c, r, said}, nil
	case r.Buffered() > 0:
		return nil, errors.New("the server sent data before the TLS handshake")
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
			return nil, fmt.Errorf("certificate authority: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("certificate authority: %s contains no certificate", u.CAFile)
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
