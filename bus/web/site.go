package web

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// MinToken is the least number of characters of a token: long enough that it cannot be guessed.
const MinToken = 16

// Options configures [New].
type Options struct {
	// Files are the console's files, with index.html for a directory; nil serves no console.
	Files fs.FS
	// Mounts are the other handlers. Their patterns must not be below /login or /token.
	Mounts []Mount
	// Token is required from every client; empty requires none.
	Token string
	// Loopback is true if only this machine can reach the port; localhost is then a valid name of it.
	Loopback bool
	// Names are further valid host names, such as that of a reverse proxy; with its port if that is not the default of
	// http or https.
	Names []string
	// MaxRequests is the limit of concurrent requests, default 512. Requests that do not begin with the token have half
	// of this number for themselves, so that they cannot keep others out.
	MaxRequests int
	// Logger logs refused requests at level debug, without headers and query; nil discards.
	Logger *slog.Logger
}

// Mount is a handler with its pattern for [http.ServeMux].
type Mount struct {
	Pattern string
	Handler http.Handler
	// OwnToken is true if the handler checks the token itself, with [Site.Allowed], because its clients cannot send
	// headers. All other checks apply.
	OwnToken bool
	// fromMemory is true if the handler waits for nothing but the client. Then it takes no slot: clients that read
	// slowly, or not at all, would keep the others out.
	fromMemory bool
}

// Site is the handler of the whole port.
type Site struct {
	o         Options
	mux       *http.ServeMux
	code      string // value of the cookie, derived from the token
	slots     Slots
	strangers Slots // of requests without a token in a header or the cookie: forms, and handlers with OwnToken
	formTime  time.Duration
}

// New validates the options and returns the handler.
func New(o Options) (*Site, error) {
	o.MaxRequests = cmp.Or(o.MaxRequests, DefaultMaxRequests)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Token != "" {
		if err := CheckToken(o.Token); err != nil {
			return nil, err
		}
	}
	for _, name := range o.Names {
		if err := CheckName(name); err != nil {
			return nil, err
		}
	}
	s := &Site{o: o, mux: http.NewServeMux(), code: cookieCode(o.Token), slots: NewSlots(o.MaxRequests),
		strangers: NewSlots(o.MaxRequests/2 + 1), formTime: formTime}
	for _, m := range append(slices.Clone(o.Mounts), Mount{Pattern: "POST /login", Handler: http.HandlerFunc(s.login),
		OwnToken: true}, Mount{Pattern: "/", Handler: http.HandlerFunc(s.file), fromMemory: true}) {
		s.mux.Handle(m.Pattern, s.checked(m))
	}
	return s, nil
}

// CheckToken returns an error for a token that is too short or is not a valid header value.
func CheckToken(token string) error {
	if len(token) < MinToken {
		return fmt.Errorf("web: the token has fewer than %d characters", MinToken)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= unicode.MaxASCII }) {
		return errors.New("web: the token has characters that are not printable ASCII")
	}
	return nil
}

// CheckName returns an error for an invalid name of [Options].Names.
func CheckName(name string) error {
	given := name
	if _, err := netip.ParseAddr(name); err == nil {
		return nil
	}
	if host, port, found := strings.Cut(name, ":"); found {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("web: %.80q is not the name of a host, or one with a port", given)
		}
		name = host
	}
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && r != '.' && r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	}) {
		return fmt.Errorf("web: %.80q is not the name of a host, or one with a port", given)
	}
	return nil
}

// ServeHTTP serves the port. It does not leave a path that is not clean to the mux, which would redirect, with the
// token of a link, before the checks.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if at, clean := r.URL.Path, path.Clean(r.URL.Path); at != clean && (clean == "/" || at != clean+"/") {
		s.checked(Mount{Handler: http.HandlerFunc(http.NotFound), fromMemory: true}).ServeHTTP(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// checked calls the handler for requests that pass the checks.
func (s *Site) checked(m Mount) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		switch {
		case !s.knownHost(r.Host):
			s.refuse(w, r, http.StatusMisdirectedRequest, "this host is not one of the runner's: name it with --http-name")
			return
		case !s.ownPage(r):
			s.refuse(w, r, http.StatusForbidden, "pages of other origins may not ask here")
			return
		case !m.OwnToken && s.enterByLink(w, r):
			return
		}
		slots := s.slots
		if !s.Allowed(r, "") {
			if !m.OwnToken {
				s.askForToken(w, r)
				return
			}
			slots = s.strangers
		}
		if m.fromMemory {
			m.Handler.ServeHTTP(w, r)
			return
		}
		slots.Serve(w, r, m.Handler, func(w http.ResponseWriter, r *http.Request) {
			s.refuse(w, r, http.StatusServiceUnavailable, "too many requests at once")
		})
	})
}

func (s *Site) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	s.o.Logger.Debug("request refused", "status", status, "path", r.URL.Path, "host", r.Host, "remote", r.RemoteAddr)
	http.Error(w, why, status)
}

// protect sets the security headers, which restrict what a page may load and who may embed it.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "+
		"img-src 'self' data: blob:; font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; "+
		"frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}
