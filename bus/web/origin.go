package web

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// knownHost reports whether a request's Host is ours. An address is: a page cannot make a browser believe that its own
// name is an address.
func (s *Site) knownHost(host string) bool {
	name := hostname(host)
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return s.o.Loopback && name == "localhost" || s.named(name)
}

func (s *Site) named(name string) bool {
	return slices.ContainsFunc(s.o.Names, func(n string) bool { return strings.EqualFold(n, name) })
}

// hostname is a host without its port, in small letters.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

// ownPage reports whether a request is of one of our pages, of a person, or of no browser. The scheme is not looked at:
// a reverse proxy may have taken TLS off.
func (s *Site) ownPage(r *http.Request) bool {
	if origin, given := r.Header["Origin"]; given {
		u, err := url.Parse(strings.Join(origin, ","))
		if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) && !s.named(hostname(u.Host)) {
			return false
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	case "same-site", "cross-site":
		// A link that somebody follows; what it shows nobody but him sees. It is no navigation if a frame shows it.
		return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
			r.Header.Get("Sec-Fetch-Dest") == "document"
	}
	return false
}
