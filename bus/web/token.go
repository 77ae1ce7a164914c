package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// cookieCode derives the value of the cookie from the token. Someone who reads the cookie does not learn the token,
// which may be used elsewhere and for longer.
func cookieCode(token string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("loopbus console cookie v1"))
	return hex.EncodeToString(mac.Sum(nil))
}

// Allowed reports whether a request contains the token, in a header or the cookie, or whether shown, which the client
// sent in another way, is the token. Without a token every request is allowed.
func (s *Site) Allowed(r *http.Request, shown string) bool {
	if s.o.Token == "" || same(shown, s.o.Token) {
		return true
	}
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && same(bearer, s.o.Token) {
		return true
	}
	// Another server of the host may have set a cookie of the same name.
	return slices.ContainsFunc(r.CookiesNamed(cookieName(r)), func(c *http.Cookie) bool { return same(c.Value, s.code) })
}

func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b)) // so that the comparison does not reveal the length
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// cookieName contains the port, as the browser knows it.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		return "loopbus"
	}
	return "loopbus_" + port
}

// enterByLink handles a link with a token. It reports whether it has answered the request.
func (s *Site) enterByLink(w http.ResponseWriter, r *http.Request) bool {
	query := r.URL.Query()
	if s.o.Token == "" || r.Method != http.MethodGet || !query.Has("token") {
		return false
	}
	if !same(query.Get("token"), s.o.Token) {
		return false // the cookie may be valid
	}
	query.Del("token")
	s.setCookie(w, r)
	there := url.URL{Path: "/" + strings.TrimLeft(r.URL.Path, "/"), RawQuery: query.Encode()}
	http.Redirect(w, r, there.String(), http.StatusSeeOther)
	return true
}

func (s *Site) setCookie(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Value: s.code, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteLaxMode, // links from other sites to the console work
		// A proxy that terminates TLS sets this header. A client that forges it gets a cookie it cannot use.
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"})
}

// formTime is how long a form may take to arrive: it has a few hundred bytes, and occupies one of few slots.
const formTime = 3 * time.Second

// login exchanges the token of the form for the cookie.
func (s *Site) login(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.formTime)) // fails if the server cannot have one
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	if s.o.Token != "" && !same(strings.TrimSpace(r.PostFormValue("token")), s.o.Token) {
		s.askForToken(w, r)
		return
	}
	s.setCookie(w, r)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

const loginPage = `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>loopbus</title>
<body><main><h1>loopbus</h1>
<p>This runner requires a token. It is part of the link that the runner printed, or was set with --http-token.</p>
<form method="post" action="/login"><label>Token <input name="token" type="password" autofocus required></label>
<button>Open</button></form></main></body></html>
`

// askForToken answers browsers with a form and other clients with one line.
func (s *Site) askForToken(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="loopbus"`)
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		s.refuse(w, r, http.StatusUnauthorized, "the runner's token is missing or wrong: send it as Authorization: Bearer …")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = io.WriteString(w, loginPage) // it is lost if the connection is
}
