package web

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"unicode"
)

// MinToken is how many characters a token has at least: it must not be guessed in any number of attempts.
const MinToken = 16

// Options configures [New].
type Options struct {
	// Files is the console; a directory has index.html. Nil is no console.
	Files fs.FS
	// Mounts are the other handlers, none of which may be for a path below /login or /token.
	Mounts []Mount
	// Token has to be shown by everybody, if it is not empty.
	Token string
	// Loopback says that the port is reached by this machine only, so that localhost is a name of it.
	Loopback bool
	// Names are the other names that the port is reached by, such as that of a reverse proxy, without a port.
	Names []string
	// MaxRequests are at work at a time, default 512.
	MaxRequests int
	// Logger logs at level debug what is refused, without its headers and query; nil discards.
	Logger *slog.Logger
}

// Mount is a handler with the pattern that it is for, as [http.ServeMux] has them.
type Mount struct {
	Pattern string
	Handler http.Handler
	// OwnToken says that the handler asks for the token by itself, with [Site.Allowed], because its clients cannot send
	// headers. All other checks are made.
	OwnToken bool
}

// Site is the handler of the whole port.
type Site struct {
	o     Options
	mux   *http.ServeMux
	code  string // what the cookie has in the token's place
	slots Slots
}

// New checks the options.
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
	s := &Site{o: o, mux: http.NewServeMux(), code: cookieCode(o.Token), slots: NewSlots(o.MaxRequests)}
	s.mux.Handle("POST /login", s.checked(http.HandlerFunc(s.login), true))
	for _, m := range o.Mounts {
		s.mux.Handle(m.Pattern, s.checked(m.Handler, m.OwnToken))
	}
	s.mux.Handle("/", s.checked(http.HandlerFunc(s.file), false))
	return s, nil
}

// CheckToken refuses a token that is too short or could not be a header's value.
func CheckToken(token string) error {
	if len(token) < MinToken {
		return fmt.Errorf("web: the token has fewer than %d characters", MinToken)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= unicode.MaxASCII }) {
		return errors.New("web: the token has characters that are not printable ASCII")
	}
	return nil
}

// CheckName refuses what is no name of a host, or has a port.
func CheckName(name string) error {
	if _, err := netip.ParseAddr(name); err == nil {
		return nil
	}
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && r != '.' && r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	}) {
		return fmt.Errorf("web: %.80q is not the name of a host, without a port", name)
	}
	return nil
}

// ServeHTTP serves the port.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// checked has a handler called for what passes the checks.
func (s *Site) checked(next http.Handler, ownToken bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		switch {
		case !s.knownHost(r.Host):
			s.refuse(w, r, http.StatusMisdirectedRequest, "this host is not one of the runner's: name it with --http-name")
			return
		case !s.ownPage(r):
			s.refuse(w, r, http.StatusForbidden, "pages of other origins may not ask here")
			return
		case !ownToken && s.enterByLink(w, r):
			return
		case !ownToken && !s.Allowed(r, ""):
			s.askForToken(w, r)
			return
		}
		s.slots.Serve(w, r, next, func(w http.ResponseWriter, r *http.Request) {
			s.refuse(w, r, http.StatusServiceUnavailable, "too many requests at once")
		})
	})
}

func (s *Site) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	s.o.Logger.Debug("request refused", "status", status, "path", r.URL.Path, "host", r.Host, "remote", r.RemoteAddr)
	http.Error(w, why, status)
}

// protect sets the headers that keep a page from doing what it should not.
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
