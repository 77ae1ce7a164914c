package client

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	defaultRequestTimeout = 30 * time.Second
	dialTimeout           = 2 * time.Second        // of one attempt to connect
	reconnectWait         = 250 * time.Millisecond // between two attempts of a lost connection, plus jitter
	pingInterval          = 10 * time.Second       // a dead peer is noticed after three
)

// Options configures [Connect] and [New]. Everything may stay empty. [New] uses Prefix, Domain, APIPrefix, Source and
// RequestTimeout only: the rest is about making a connection.
type Options struct {
	// Context names a context of the nats command line (or is the absolute path of one's file), whose settings count
	// where these options say nothing. See [ReadContext].
	Context string
	// Name is shown in the server's list of connections. Default "loopbus-client".
	Name string
	// Prefix of every subject, see [schemas.NewSubjects].
	Prefix string
	// InboxPrefix of the subjects that replies come to; the default _INBOX is shared by all clients of an account.
	InboxPrefix string
	// Credentials, at most one kind: a .creds file, a file with an nkey seed, user and password, or a token.
	CredsFile    string
	NKeySeedFile string
	User         string
	Password     string
	Token        string
	// TLS, as PEM files: the authority to trust, and this client's certificate with its key. TLSFirst has the handshake
	// come before the server's greeting.
	CAFile   string
	CertFile string
	KeyFile  string
	TLSFirst bool
	// Domain or APIPrefix, at most one of them: where the JetStream is that has the streams of loopbus, if it is not the
	// server's own.
	Domain    string
	APIPrefix string
	// Source says who sends the commands, as the CloudEvents attribute does: a URI reference. Default
	// /loopbus/client/<Name>. It is in the log of every session that is sent something.
	Source string
	// RequestTimeout is how long a request may take where its context sets no earlier end, lost connections included.
	// Default 30 s.
	RequestTimeout time.Duration
	// Logger is told when the connection is lost and when it is back; nil discards.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Name = cmp.Or(o.Name, "loopbus-client")
	o.Source = cmp.Or(o.Source, "/loopbus/client/"+url.PathEscape(o.Name))
	o.RequestTimeout = cmp.Or(o.RequestTimeout, defaultRequestTimeout)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// natsOptions checks what a connection needs and returns it as nats.go wants it.
func (o Options) natsOptions() ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name(o.Name),
		nats.Timeout(dialTimeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, reconnectWait),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(2),
		nats.IgnoreAuthErrorAbort(), // credentials may be renewed while the process runs
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil when we close it ourselves
				o.Logger.Warn("connection to nats lost", "err", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			o.Logger.Info("connection to nats is back", "url", redact(nc.ConnectedUrl()))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if !errors.Is(err, nats.ErrSlowConsumer) { // a slow reader, who reads the log again
				o.Logger.Warn("nats", "err", err)
			}
		}),
	}
	if o.InboxPrefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(o.InboxPrefix))
	}
	if o.TLSFirst {
		opts = append(opts, nats.TLSHandshakeFirst())
	}
	if o.CAFile != "" {
		opts = append(opts, nats.RootCAs(o.CAFile))
	}
	if o.CertFile != "" || o.KeyFile != "" {
		opts = append(opts, nats.ClientCert(o.CertFile, o.KeyFile))
	}
	credentials, err := o.credentials()
	return append(opts, credentials...), err
}

func (o Options) credentials() ([]nats.Option, error) {
	var opts []nats.Option
	if o.CredsFile != "" {
		opts = append(opts, nats.UserCredentials(o.CredsFile))
	}
	if o.NKeySeedFile != "" {
		nkey, err := nats.NkeyOptionFromSeed(o.NKeySeedFile)
		if err != nil {
			return nil, fmt.Errorf("nkey seed file %s: %w", o.NKeySeedFile, err)
		}
		opts = append(opts, nkey)
	}
	if o.User != "" {
		opts = append(opts, nats.UserInfo(o.User, o.Password))
	}
	if o.Token != "" {
		opts = append(opts, nats.Token(o.Token))
	}
	if len(opts) > 1 {
		return nil, errors.New("more than one kind of credentials given")
	}
	return opts, nil
}

// checkURLs refuses what nats.go would quote in an error, with the password that it may hold.
func checkURLs(servers string) error {
	for i, u := range strings.Split(servers, ",") {
		if _, err := url.Parse(strings.TrimSpace(u)); err != nil {
			return fmt.Errorf("URL number %d is malformed", i+1)
		}
	}
	return nil
}

// redact hides users, passwords and tokens in a list of URLs; url.URL.Redacted would show a token, which stands where a
// user does.
func redact(servers string) string {
	urls := strings.Split(servers, ",")
	for i, raw := range urls {
		raw = strings.TrimSpace(raw)
		if !strings.Contains(raw, "://") {
			raw = "nats://" + raw
		}
		u, err := url.Parse(raw)
		if err != nil {
			urls[i] = "(malformed URL)"
			continue
		}
		if u.User != nil {
			u.User = url.User("xxxxx")
		}
		urls[i] = u.String()
	}
	return strings.Join(urls, ",")
}
