package dial

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	timeout       = 2 * time.Second        // limit of one connection attempt
	reconnectWait = 250 * time.Millisecond // between two reconnection attempts, plus jitter
	pingInterval  = 10 * time.Second       // a dead peer is detected after three intervals
)

// Settings configures a connection to NATS: identity, TLS and JetStream. The zero value connects without credentials.
type Settings struct {
	// InboxPrefix is the prefix of reply subjects; the default _INBOX is shared by all clients of an account.
	InboxPrefix string
	// Credentials, at most one kind: a .creds file, a file with an nkey seed, user and password, or a token.
	CredsFile    string
	NKeySeedFile string
	User         string
	Password     string
	Token        string
	// TLS, as PEM files: the certificate authority to trust, and this process's certificate and key. TLSFirst makes
	// the TLS handshake come before the server's INFO.
	CAFile   string
	CertFile string
	KeyFile  string
	TLSFirst bool
	// Domain or APIPrefix, at most one of them, selects the JetStream with the streams of loopbus, if it is not the
	// connected server's own.
	Domain    string
	APIPrefix string
}

// Options validates the settings and returns options for nats.go: credentials and TLS, reconnecting for ever, a limit
// of the headers of a message (package headerlimit), and handlers that log when the connection called name is lost and
// re-established. Log lines and errors contain no credentials.
func (s Settings) Options(name string, log *slog.Logger) ([]nats.Option, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	opts := append(connection(name, log.With("connection", name)), s.tls()...)
	if s.InboxPrefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(s.InboxPrefix))
	}
	credentials, err := s.credentials()
	if s.Domain != "" && s.APIPrefix != "" {
		err = errors.Join(err, errors.New("both a JetStream domain and an API prefix are given"))
	}
	return append(append(opts, credentials...), limited), err
}

// connection returns the options that do not depend on the settings.
func connection(name string, log *slog.Logger) []nats.Option {
	return []nats.Option{
		nats.Name(name),
		nats.Timeout(timeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, reconnectWait),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(2),
		nats.IgnoreAuthErrorAbort(), // credentials may be renewed while the process runs
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil when this process closes it
				log.Warn("connection to NATS lost", "err", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("connection to NATS re-established", "url", Connected(nc))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			log.Warn("NATS reported an asynchronous error", "err", err, "subject", subject)
		}),
	}
}

func (s Settings) credentials() ([]nats.Option, error) {
	var opts []nats.Option
	if s.CredsFile != "" {
		opts = append(opts, nats.UserCredentials(s.CredsFile))
	}
	if s.NKeySeedFile != "" {
		nkey, err := nats.NkeyOptionFromSeed(s.NKeySeedFile)
		if err != nil {
			return nil, fmt.Errorf("nkey seed file %s: %w", s.NKeySeedFile, err)
		}
		opts = append(opts, nkey)
	}
	if s.User != "" {
		opts = append(opts, nats.UserInfo(s.User, s.Password))
	}
	if s.Token != "" {
		opts = append(opts, nats.Token(s.Token))
	}
	if len(opts) > 1 {
		return nil, errors.New("more than one kind of credentials given")
	}
	return opts, nil
}

func (s Settings) tls() []nats.Option {
	var opts []nats.Option
	if s.TLSFirst {
		opts = append(opts, nats.TLSHandshakeFirst())
	}
	if s.CAFile != "" {
		opts = append(opts, nats.RootCAs(s.CAFile))
	}
	if s.CertFile != "" || s.KeyFile != "" {
		opts = append(opts, nats.ClientCert(s.CertFile, s.KeyFile))
	}
	return opts
}

// JetStream returns the JetStream context of the settings on a connection.
func (s Settings) JetStream(nc *nats.Conn) (jetstream.JetStream, error) {
	switch {
	case s.Domain != "" && s.APIPrefix != "":
		return nil, errors.New("both a JetStream domain and an API prefix are given")
	case s.Domain != "":
		return jetstream.NewWithDomain(nc, s.Domain)
	case s.APIPrefix != "":
		return jetstream.NewWithAPIPrefix(nc, s.APIPrefix)
	}
	return jetstream.New(nc)
}

// Or returns the settings, completed with those of a context. It takes credentials as a whole, and so too a
// certificate with its key, and the location of JetStream.
func (s Settings) Or(context Settings) Settings {
	if s.CredsFile == "" && s.NKeySeedFile == "" && s.User == "" && s.Token == "" {
		s.CredsFile, s.NKeySeedFile = context.CredsFile, context.NKeySeedFile
		s.User, s.Password, s.Token = context.User, context.Password, context.Token
	}
	if s.CertFile == "" && s.KeyFile == "" {
		s.CertFile, s.KeyFile = context.CertFile, context.KeyFile
	}
	if s.Domain == "" && s.APIPrefix == "" {
		s.Domain, s.APIPrefix = context.Domain, context.APIPrefix
	}
	s.CAFile, s.InboxPrefix = cmp.Or(s.CAFile, context.CAFile), cmp.Or(s.InboxPrefix, context.InboxPrefix)
	s.TLSFirst = s.TLSFirst || context.TLSFirst
	return s
}
