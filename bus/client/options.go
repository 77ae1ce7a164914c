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

// Options configures [Connect] and [New]. Everything may stay empty. [New] uses Prefix, Source,
// RequestTimeout, and Domain and APIPrefix of Dial only: the rest is about making a connection.
type Options struct {
	// Context names a context of the nats command line (or is the absolute path of one's file), whose settings count
	// where these options say nothing. See [dial.ReadContext].
	Context string
	// Name is shown in the server's list of connections. Default "loopbus-client".
	Name string
	// Prefix of every subject, see [schemas.NewSubjects].
	Prefix string
	// Dial says as whom to connect and how, and where JetStream is.
	Dial dial.Settings
	// Source says who sends the commands, as the CloudEvents attribute does: a URI reference. Default
	// /loopbus/client/<Name>. It is in the log of every session that is sent something.
	Source string
	// RequestTimeout is how long a request may take where its context sets no earlier end, lost connections included.
	// Default 30 s.
	RequestTimeout time.Duration
	// Logger records when the connection is lost and when it is back; nil discards.
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
	opts, err := o.Dial.Options(o.Name, o.Logger)
	return append(opts, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if !errors.Is(err, nats.ErrSlowConsumer) { // a slow reader, which reads the log again
			o.Logger.Warn("nats", "err", err)
		}
	})), err
}
