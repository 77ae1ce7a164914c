package dial

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/headerlimit"
)

// limited is an option for nats.go with which messages have as many headers as package headerlimit allows. It comes
// after the options for TLS: what is read has to be looked at behind TLS, so the dialer makes the handshake in place of
// nats.go, with the same settings. A WebSocket has frames of its own, so connections by these are not limited.
func limited(o *nats.Options) error {
	d := &dialer{timeout: cmp.Or(o.Timeout, timeout), secure: o.Secure, first: o.TLSHandshakeFirst, config: o.TLSConfig,
		certificate: o.TLSCertCB, roots: o.RootCAsCB, configured: map[string]bool{}}
	for _, server := range o.Servers {
		if !strings.Contains(server, "://") {
			server = "nats://" + server
		}
		u, err := url.Parse(server)
		if err != nil {
			return nil // nats.go refuses it
		}
		switch u.Scheme {
		case "ws", "wss":
			return nil
		case "tls":
			d.secure = true
		}
		d.configured[u.Hostname()] = true
	}
	o.CustomDialer, o.SkipHostLookup = d, true // with the name, which the certificate is for
	return nil
}

// Limited returns a provider of connections in this process whose messages have as many headers as package headerlimit
// allows.
func Limited(p nats.InProcessConnProvider) nats.InProcessConnProvider { return inProcess{p} }

type inProcess struct{ nats.InProcessConnProvider }

func (p inProcess) InProcessConn() (net.Conn, error) {
	c, err := p.InProcessConnProvider.InProcessConn()
	if err != nil {
		return nil, err
	}
	return &conn{c, headerlimit.NewReader(nil, c)}, nil
}

// conn is a connection to a NATS server, behind TLS if that is used.
type conn struct {
	net.Conn
	limited *headerlimit.Reader
}

func (c *conn) Read(p []byte) (int, error) { return c.limited.Read(p) }

// dialer implements [nats.CustomDialer]. Only one goroutine uses it at a time, that of its connection.
type dialer struct {
	timeout     time.Duration
	secure      bool // TLS is required, whatever the server says
	first       bool // TLS comes before the server's INFO
	config      *tls.Config
	certificate nats.TLSCertHandler
	roots       nats.RootCAsHandler

	configured map[string]bool // hosts
	name       string          // of the last server that had a name, and not only an address
}

// SkipTLSHandshake tells nats.go that Dial makes the handshake.
func (d *dialer) SkipTLSHandshake() bool { return true }

// Dial connects to one of the addresses of a host.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addresses := []string{host}
	if net.ParseIP(host) == nil {
		if found, err := net.LookupHost(host); err == nil && len(found) > 0 {
			addresses = found
		}
	}
	rand.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
	var c net.Conn
	tcp := net.Dialer{Timeout: d.timeout / time.Duration(len(addresses))}
	for _, a := range addresses {
		if c, err = tcp.Dial(network, net.JoinHostPort(a, port)); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	limited, err := d.greet(c, host)
	if err != nil {
		c.Close()
		return nil, err
	}
	return limited, nil
}

// greet makes the TLS handshake, if there is one. Unless that comes first it has read the server's INFO before, and the
// connection that it returns begins with that.
func (d *dialer) greet(c net.Conn, host string) (net.Conn, error) {
	if err := c.SetDeadline(time.Now().Add(d.timeout)); err != nil {
		return nil, err
	}
	var info []byte
	wanted := d.first
	if !d.first {
		var err error
		if info, wanted, err = d.readInfo(c); err != nil {
			return nil, err
		}
	}
	if wanted {
		secured, err := d.handshake(c, host)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", nats.ErrTLS, err)
		}
		c = secured
	}
	return &conn{c, headerlimit.NewReader(info, c)}, c.SetDeadline(time.Time{})
}

const mostInfo = 1 << 20 // bytes of a server's INFO, which has the URLs of its cluster

// readInfo reads what a server says first, and whether TLS is to follow. Nothing else may have come then: somebody
// could have put it in front of what is authenticated.
func (d *dialer) readInfo(c net.Conn) (info []byte, wanted bool, err error) {
	buf := make([]byte, 4<<10)
	for bytes.IndexByte(info, '\n') < 0 {
		n, err := c.Read(buf)
		if err != nil {
			return nil, false, err
		}
		if info = append(info, buf[:n]...); len(info) > mostInfo {
			return nil, false, errors.New("not a NATS server: its INFO has no end")
		}
	}
	line, rest, _ := bytes.Cut(info, []byte("\n"))
	var said struct {
		Required  bool `json:"tls_required"`
		Available bool `json:"tls_available"`
	}
	if text, ok := bytes.CutPrefix(line, []byte("INFO ")); !ok || json.Unmarshal(text, &said) != nil {
		return info, false, nil // nats.go says so
	}
	wanted = said.Required || d.secure && said.Available // if it is wanted and not available nats.go refuses the server
	if wanted && len(rest) > 0 {
		return nil, false, fmt.Errorf("%w: %d bytes came before the handshake", nats.ErrTLS, len(rest))
	}
	return info, wanted, nil
}

// handshake is what nats.go does.
func (d *dialer) handshake(c net.Conn, host string) (net.Conn, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if d.config != nil {
		config = d.config.Clone()
	}
	if d.certificate != nil {
		cert, err := d.certificate()
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{cert}
	}
	if d.roots != nil {
		roots, err := d.roots()
		if err != nil {
			return nil, err
		}
		config.RootCAs = roots
	}
	config.ServerName = cmp.Or(config.ServerName, d.serverName(host))
	secured := tls.Client(c, config)
	if err := secured.Handshake(); err != nil {
		return nil, err
	}
	return secured, nil
}

// serverName returns the name that a server's certificate has to have. One that another server of its cluster has named
// by its address has the name of that one.
func (d *dialer) serverName(host string) string {
	if net.ParseIP(host) == nil {
		d.name = host
	} else if !d.configured[host] && d.name != "" {
		return d.name
	}
	return host
}
