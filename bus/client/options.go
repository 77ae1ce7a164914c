package client

import (
	"cmp"
	"errors"
	"log/slog"
	"net/url"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/dial"
)

const defaultRequestTimeout = 30 * time.Second

// Options configures [Connect] and [New]. The zero value is usable. [New] uses only Prefix, Source, RequestTimeout,
// and the Domain and APIPrefix of Dial; the other fields configure a connection.
type Options struct {
	// Context names a context of the nats command line, or is the absolute path of a context file. Its settings apply
	// where these options are empty. See [dial.ReadContext].
	Context string
	// Name identifies the connection in the server's connection list. Default "loopbus-client".
	Name string
	// Prefix is the first part of every subject; see [schemas.NewSubjects]. Default "agent".
	Prefix string
	// Dial holds credentials, TLS settings, and the JetStream domain or API prefix.
	Dial dial.Settings
	// Source is the CloudEvents source of the commands that this client sends: a URI reference. The log of a session
	// records it. Default /loopbus/client/<Name>.
	Source string
	// RequestTimeout limits each request, including retries and reconnects, if its context has no earlier deadline.
	// Default 30 s.
	RequestTimeout time.Duration
	// Logger receives a record when the connection is lost and when it is re-established; nil discards.
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

// natsOptions validates the connection settings and converts them to options of nats.go.
func (o Options) natsOptions() ([]nats.Option, error) {
	opts, err := o.Dial.Options(o.Name, o.Logger)
	return append(opts, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if !errors.Is(err, nats.ErrSlowConsumer) { // the follower reads dropped messages from the log
			o.Logger.Warn("NATS reported an asynchronous error", "err", err)
		}
	})), err
}
