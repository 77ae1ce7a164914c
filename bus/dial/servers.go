package dial

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"
)

// Servers splits a comma-separated list of URLs. An empty list has none.
func Servers(list string) []string {
	if list == "" {
		return nil
	}
	urls := strings.Split(list, ",")
	for i := range urls {
		urls[i] = strings.TrimSpace(urls[i])
	}
	return urls
}

// CheckServers returns an error that identifies malformed URLs by their number in the list. The errors of nats.go and
// net/url would quote the URL and thereby the password in it.
func CheckServers(list string) error {
	var errs []error
	for i, u := range Servers(list) {
		if _, err := url.Parse(u); err != nil {
			errs = append(errs, fmt.Errorf("URL number %d is malformed", i+1))
		}
	}
	return errors.Join(errs...)
}

// Redact hides users, passwords and tokens in a list of URLs. [url.URL.Redacted] would show a token, which has the
// place of the user.
func Redact(list string) string {
	urls := Servers(list)
	for i, raw := range urls {
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

// Connected returns the URL of the server that a connection is connected to, without credentials; "" if it is not
// connected. [nats.Conn.ConnectedUrlRedacted] would show a token.
func Connected(nc *nats.Conn) string { return Redact(nc.ConnectedUrl()) }
