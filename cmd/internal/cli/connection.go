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

// DefaultURL is the server of commands for which none is named.
const DefaultURL = "nats://127.0.0.1:4222"

// Connection has the settings of a connection to NATS, named as those of the nats command.
type Connection struct {
	NATS        string `name:"nats" placeholder:"URL" brief:"" variable:"NATS_URL" help:"Connect to these servers."`
	Context     string `placeholder:"NAME" brief:"" help:"Use this context of the nats command."`
	Creds       string `placeholder:"FILE" brief:"" help:"Authenticate with a credentials file."`
	NKey        string `name:"nkey" placeholder:"FILE" help:"Authenticate with the nkey seed in a file."`
	User        string `help:"Authenticate as this user."`
	Password    string `secret:"" help:"Authenticate with this password; prefer LOOPBUS_PASSWORD."`
	Token       string `secret:"" help:"Authenticate with this token; prefer LOOPBUS_TOKEN."`
	TLSCA       string `name:"tls-ca" placeholder:"FILE" help:"Trust the certificate authorities in a PEM file."`
	TLSCert     string `name:"tls-cert" placeholder:"FILE" help:"Present the certificate in a PEM file."`
	TLSKey      string `name:"tls-key" placeholder:"FILE" help:"Use the key in a PEM file for --tls-cert."`
	Prefix      string `default:"agent" help:"Begin every subject with this token."`
	InboxPrefix string `placeholder:"SUBJECT" help:"Receive replies below this subject (default _INBOX)."`

	inContext dial.Settings // settings of the context
	url       string        // servers of the context
}

// Check reads the context, and checks that files exist and that settings are compatible.
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
		bad("%s: give only one kind of credentials", strings.Join(kinds, ", "))
	}
	if o.Password != "" && o.User == "" {
		bad("--password: needs --user")
	}
	if (o.TLSCert == "") != (o.TLSKey == "") {
		bad("--tls-cert, --tls-key: both are needed")
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

// URL returns where to connect: the servers of --nats, of the context, or the default.
func (o *Connection) URL() string { return cmp.Or(o.NATS, o.url, DefaultURL) }

// Settings returns the settings of the connection, including those of the context.
func (o *Connection) Settings() dial.Settings {
	own := dial.Settings{
		InboxPrefix: o.InboxPrefix, CredsFile: o.Creds, NKeySeedFile: o.NKey, User: o.User, Password: o.Password,
		Token: o.Token, CAFile: o.TLSCA, CertFile: o.TLSCert, KeyFile: o.TLSKey,
	}
	if o.Context == "" { // also if replay's --store overrides the context
		return own
	}
	return own.Or(o.inContext)
}

// Files returns the files with secrets that the settings name, including those of the context; an entry may be "".
func (o *Connection) Files() []string {
	c := o.Settings()
	files := []string{c.CredsFile, c.NKeySeedFile, c.KeyFile}
	if o.Context != "" {
		if file, err := dial.ContextFile(o.Context); err == nil { // if not, there is no file to protect
			files = append(files, file)
		}
	}
	return files
}

// Client connects as a client. The caller must close it.
func (o *Connection) Client(ctx context.Context, name string, log *slog.Logger) (*client.Client, error) {
	if err := reach(ctx, o.URL()); err != nil {
		return nil, err
	}
	return client.Connect(o.URL(), client.Options{Name: name, Prefix: o.Prefix, Dial: o.Settings(), Logger: log})
}

// Upstream returns the server that WebSockets are bridged to, without credentials.
func (o *Connection) Upstream() natsws.Upstream {
	c := o.Settings()
	return natsws.Upstream{URL: o.URL(), CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile}
}

// Bus connects as a runner or worker. If a server accepts connections but does not answer yet, Bus retries until ctx
// ends. The caller must close the connection.
func (o *Connection) Bus(ctx context.Context, name string, log *slog.Logger) (*bus.Conn, error) {
	if err := reach(ctx, o.URL()); err != nil {
		return nil, err
	}
	return bus.Connect(ctx, bus.ConnOptions{URL: o.URL(), Name: name, Prefix: o.Prefix, Dial: o.Settings(), Logger: log})
}

// reachTimeout limits how long one server may take to accept a connection.
const reachTimeout = 3 * time.Second

// reach returns an error at once, with the system's reason, if no server of the list accepts connections: retrying a
// wrong address would only delay the error.
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
	if len(errs) > 0 {
		errs = append(errs, errors.New(`start a server with "runner serve", or name one with --nats URL`))
	}
	return errors.Join(errs...)
}

// hostPort returns the host and port of a NATS URL, without its credentials.
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
