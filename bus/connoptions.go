package bus

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"
)

// natsOptions checks the options and returns what both connections have in common.
func (o ConnOptions) natsOptions() ([]nats.Option, error) {
	if (o.URL == "") == (o.InProcess == nil) {
		return nil, errors.New("either a URL or a server of this process is needed")
	}
	for i, u := range o.urls() {
		if _, err := url.Parse(u); err != nil { // whose text may hold the password
			return nil, fmt.Errorf("URL number %d is malformed", i+1)
		}
	}
	opts := []nats.Option{
		nats.Timeout(dialTimeout),
		nats.DrainTimeout(drainTimeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, reconnectWait),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(2),
		nats.IgnoreAuthErrorAbort(), // credentials may be renewed while the process runs
	}
	if o.InProcess != nil {
		opts = append(opts, nats.InProcessServer(o.InProcess))
	}
	if o.InboxPrefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(o.InboxPrefix))
	}
	credentials, err := o.credentials()
	if err != nil {
		return nil, err
	}
	return append(append(opts, credentials...), o.tls()...), nil
}

func (o ConnOptions) credentials() ([]nats.Option, error) {
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

func (o ConnOptions) tls() []nats.Option {
	var opts []nats.Option
	if o.CAFile != "" {
		opts = append(opts, nats.RootCAs(o.CAFile))
	}
	if o.CertFile != "" || o.KeyFile != "" {
		opts = append(opts, nats.ClientCert(o.CertFile, o.KeyFile))
	}
	return opts
}

func (o ConnOptions) urls() []string {
	if o.URL == "" {
		return nil
	}
	urls := strings.Split(o.URL, ",")
	for i := range urls {
		urls[i] = strings.TrimSpace(urls[i])
	}
	return urls
}

// where names the servers for an error, without credentials.
func (o ConnOptions) where() string {
	if o.InProcess != nil {
		return "the server of this process"
	}
	urls := o.urls()
	for i := range urls {
		urls[i] = redactURL(urls[i])
	}
	return strings.Join(urls, ",")
}

// redactURL hides user, password and token; url.URL.Redacted would show a token, which stands where a user does.
func redactURL(raw string) string {
	if !strings.Contains(raw, "://") {
		raw = "nats://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "(malformed URL)"
	}
	if u.User != nil {
		u.User = url.User("xxxxx")
	}
	return u.String()
}
