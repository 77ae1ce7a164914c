package dial

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"
)

// Servers splits a list of URLs at its commas. An empty list has no URL.
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

// CheckServers refuses malformed URLs, by their number in the list: nats.go and net/url would quote them, with the
// password that they may hold.
func CheckServers(list string) error {
	var errs []error
	for i, u := range Servers(list) {
		if _, err := url.Parse(u); err != nil {
			errs = append(errs, fmt.Errorf("URL number %d is malformed", i+1))
		}
	}
	return errors.Join(errs...)
}

// Redact hides users, passwords and tokens in a list of URLs. [url.URL.Redacted] would show a token, which stands where
// a user does.
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

// Connected is the URL of the server that a connection has, without credentials, "" without one.
// [nats.Conn.ConnectedUrlRedacted] would show a token.
func Connected(nc *nats.Conn) string { return Redact(nc.ConnectedUrl()) }
