package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/natsws"
	"github.com/loopbus/loopbus/schemas"
)

// DefaultURL is where commands connect for which no server is named.
const DefaultURL = "nats://127.0.0.1:4222"

// Connection has the settings by which a process reaches NATS, as the nats command names them.
type Connection struct {
	NATS        string `name:"nats" placeholder:"URL" brief:"" variable:"NATS_URL" help:"Connect to these servers."`
	Context     string `placeholder:"NAME" brief:"" help:"Connect as a context of the nats command line says."`
	Creds       string `placeholder:"FILE" brief:"" help:"Authenticate with a credentials file."`
	NKey        string `name:"nkey" placeholder:"FILE" help:"Authenticate with the nkey seed in a file."`
	User        string `help:"Authenticate as this user."`
	Password    string `secret:"" help:"Authenticate with this password; rather give LOOPBUS_PASSWORD."`
	Token       string `secret:"" help:"Authenticate with this token; rather give LOOPBUS_TOKEN."`
	TLSCA       string `name:"tls-ca" placeholder:"FILE" help:"Trust the authority in a PEM file."`
	TLSCert     string `name:"tls-cert" placeholder:"FILE" help:"Show the server the certificate in a PEM file."`
	TLSKey      string `name:"tls-key" placeholder:"FILE" help:"Use the key in a PEM file for --tls-cert."`
	Prefix      string `default:"agent" help:"Begin every subject with this token."`
	InboxPrefix string `placeholder:"SUBJECT" help:"Receive replies below this subject (default _INBOX)."`

	inContext dial.Settings // what the context says
	url       string        // what it has of servers
}

// Check reads the context and looks whether files are there and settings go together.
func (o *Connection) Check(c *Call) (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, err := schemas.NewSubjects(o.Prefix); err != nil {
		bad("--prefix: %w", err)
	}
	for _, f := range []struct{ name, path string }{
		{"creds", o.Creds}, {"nkey", o.NKey}, {"tls-ca", o.TLSCA}, {"tls-cert", o.TLSCert}, {"tls-key", o.TLSKey},
	} {
		if f.path == "" {
			continue
		}
		if _, err := os.Stat(f.path); err != nil {
			bad("--%s: %w", f.name, err)
		}
	}
	var kinds []string
	for _, k := range []struct{ name, value string }{
		{"--creds", o.Creds}, {"--nkey", o.NKey}, {"--user", o.User}, {"--token", o.Token},
	} {
		if k.value != "" {
			kinds = append(kinds, k.name)
		}
	}
	if len(kinds) > 1 {
		bad("%s: only one kind of credentials", strings.Join(kinds, ", "))
	}
	if o.Password != "" && o.User == "" {
		bad("--password: needs --user")
	}
	if (o.TLSCert == "") != (o.TLSKey == "") {
		bad("--tls-cert and --tls-key go together")
	}
	if o.Context != "" {
		var err error
		if o.url, o.inContext, err = dial.ReadContext(o.Context); err != nil {
			bad("--context: %w", err)
		}
	}
	if err := dial.CheckServers(o.NATS); err != nil {
		bad("--nats: %w", err)
	}
	return errs
}

// Given reports whether the settings name a server.
func (o *Connection) Given() bool { return o.NATS != "" || o.Context != "" }

// URL is where to connect: --nats, or the context's servers, or the default.
func (o *Connection) URL() string { return cmp.Or(o.NATS, o.url, DefaultURL) }

// Settings is what the settings come to, those of the context included.
func (o *Connection) Settings() dial.Settings {
	own := dial.Settings{
		InboxPrefix: o.InboxPrefix, CredsFile: o.Creds, NKeySeedFile: o.NKey, User: o.User, Password: o.Password,
		Token: o.Token, CAFile: o.TLSCA, CertFile: o.TLSCert, KeyFile: o.TLSKey,
	}
	if o.Context == "" { // replay's --store sets one aside
		return own
	}
	return own.Or(o.inContext)
}

// Files are those with secrets that the settings name, the context's own among them. "" is none.
func (o *Connection) Files() []string {
	c := o.Settings()
	files := []string{c.CredsFile, c.NKeySeedFile, c.KeyFile}
	if o.Context != "" {
		if file, err := dial.ContextFile(o.Context); err == nil { // else it could not be read
			files = append(files, file)
		}
	}
	return files
}

// Client connects as a client and nothing else. The caller has to close it.
func (o *Connection) Client(ctx context.Context, name string, log *slog.Logger) (*client.Client, error) {
	if err := reach(ctx, o.URL()); err != nil {
		return nil, err
	}
	return client.Connect(o.URL(), client.Options{Name: name, Prefix: o.Prefix, Dial: o.Settings(), Logger: log})
}

// Upstream is the server that WebSockets are bridged to. Credentials are no part of it.
func (o *Connection) Upstream() natsws.Upstream {
	c := o.Settings()
	return natsws.Upstream{URL: o.URL(), CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile}
}

// Bus connects as a runner or worker does, trying until ctx ends if a server that is there does not answer yet. The
// caller has to close the connection.
func (o *Connection) Bus(ctx context.Context, name string, log *slog.Logger) (*bus.Conn, error) {
	if err := reach(ctx, o.URL()); err != nil {
		return nil, err
	}
	return bus.Connect(ctx, bus.ConnOptions{URL: o.URL(), Name: name, Prefix: o.Prefix, Dial: o.Settings(), Logger: log})
}

// reachTimeout is how long one server may take to accept a connection.
const reachTimeout = 3 * time.Second

// reach says at once, with the system's reason, that no server of a list can be reached: a wrong address is not worth
// waiting for.
func reach(ctx context.Context, servers string) error {
	var errs []error
	for _, server := range dial.Servers(servers) {
		address, err := hostPort(server)
		if err == nil {
			one, cancel := context.WithTimeout(ctx, reachTimeout)
			var c net.Conn
			c, err = new(net.Dialer).DialContext(one, "tcp", address)
			cancel()
			if err == nil {
				return c.Close()
			}
		}
		errs = append(errs, fmt.Errorf("no NATS server at %s: %w", address, err))
	}
	return errors.Join(errs...)
}

// hostPort is where a URL of NATS points to, without the credentials that it may have.
func hostPort(server string) (string, error) {
	if !strings.Contains(server, "://") {
		server = "nats://" + server
	}
	u, err := url.Parse(server)
	if err != nil {
		return "(malformed URL)", errors.New("the URL is malformed")
	}
	port := map[string]string{"ws": "80", "wss": "443"}[u.Scheme]
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port, "4222")), nil
}
