package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// cookieCode is what the cookie has in the token's place: whoever reads it has not the token, which may be used
// elsewhere and longer.
func cookieCode(token string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("loopbus console cookie v1"))
	return hex.EncodeToString(mac.Sum(nil))
}

// Allowed reports whether a request shows the token, by a header or the cookie, or whether shown, which a client has
// sent otherwise, is it. Without a token everybody is allowed.
func (s *Site) Allowed(r *http.Request, shown string) bool {
	if s.o.Token == "" || same(shown, s.o.Token) {
		return true
	}
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && same(bearer, s.o.Token) {
		return true
	}
	c, err := r.Cookie(cookieName(r))
	return err == nil && same(c.Value, s.code)
}

func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b)) // so that not even the length shows
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// cookieName has the port in it, as the browser knows it.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		return "loopbus"
	}
	return "loopbus_" + port
}

// enterByLink takes the token out of a link and reports whether it has answered.
func (s *Site) enterByLink(w http.ResponseWriter, r *http.Request) bool {
	query := r.URL.Query()
	if s.o.Token == "" || r.Method != http.MethodGet || !query.Has("token") {
		return false
	}
	if !same(query.Get("token"), s.o.Token) {
		return false // it may come by the cookie
	}
	query.Del("token")
	s.setCookie(w, r)
	there := url.URL{Path: "/" + strings.TrimLeft(r.URL.Path, "/"), RawQuery: query.Encode()}
	http.Redirect(w, r, there.String(), http.StatusSeeOther)
	return true
}

func (s *Site) setCookie(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Value: s.code, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteLaxMode, // links to the console from elsewhere are followed
		// A proxy in front that speaks TLS says so. A lie makes a cookie that is of no use.
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"})
}

// login exchanges the token of the form for the cookie.
func (s *Site) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	if s.o.Token != "" && !same(strings.TrimSpace(r.PostFormValue("token")), s.o.Token) {
		s.askForToken(w, r)
		return
	}
	s.setCookie(w, r)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

var loginPage = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>loopbus</title>
<body><main><h1>loopbus</h1>
<p>This runner asks for its token. It is in the link that the runner has printed, or was set with --http-token.</p>
<form method="post" action="/login"><label>Token <input name="token" type="password" autofocus required></label>
<button>Open</button></form></main></body></html>
`))

// askForToken answers a person with a form, everybody else in a line.
func (s *Site) askForToken(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="loopbus"`)
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		s.refuse(w, r, http.StatusUnauthorized, "the runner's token is missing or wrong: send it as Authorization: Bearer …")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusUnauthorized)
	_ = loginPage.Execute(w, nil)
}
