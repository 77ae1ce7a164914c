package web

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// knownHost reports whether a request's Host is a name of this port. Every IP address is accepted, because DNS
// rebinding works with names only.
func (s *Site) knownHost(host string) bool {
	name := hostname(host)
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return s.o.Loopback && name == "localhost" || s.named(name)
}

func (s *Site) named(name string) bool {
	return slices.ContainsFunc(s.o.Names, func(n string) bool { return hostname(n) == name })
}

// namedOrigin reports whether the host of an origin is a name, with its port, of this site. What other ports of the
// host serve may be somebody else's.
func (s *Site) namedOrigin(host string) bool {
	plain := strings.Trim(host, "[]") // an IPv6 address without a port
	return slices.ContainsFunc(s.o.Names, func(n string) bool { return strings.EqualFold(n, host) || n == plain })
}

// hostname returns a host without its port, in lower case.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

// ownPage reports whether a request was made by a page of this site, by a person who opened an address, or by a client
// that is not a browser. It ignores the scheme, because a reverse proxy may terminate TLS.
func (s *Site) ownPage(r *http.Request) bool {
	if origin, given := r.Header["Origin"]; given {
		u, err := url.Parse(strings.Join(origin, ","))
		if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) && !s.namedOrigin(u.Host) {
			return false
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	case "same-site", "cross-site":
		// A person follows a link. The page that links cannot read the response. A frame is not such a navigation.
		return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
			r.Header.Get("Sec-Fetch-Dest") == "document"
	}
	return false
}
