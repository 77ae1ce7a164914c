package web_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/web"
)

const token = "a-token-of-the-tests-0123456789"

// site is one with a page, a handler that says "in", one that asks for the token itself, and its log.
func site(t *testing.T, o web.Options) (*web.Site, *bustest.Log) {
	t.Helper()
	log := new(bustest.Log)
	o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o.Files = fstest.MapFS{"index.html": {Data: []byte("<p>console")}, "app.js": {Data: []byte("export {}")},
		"lib/x.css": {Data: []byte("p {}")}}
	var s *web.Site
	in := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "in") })
	o.Mounts = append(o.Mounts, web.Mount{Pattern: "/in", Handler: in}, web.Mount{Pattern: "/own", OwnToken: true,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !s.Allowed(r, r.URL.Query().Get("shown")) {
				http.Error(w, "no", http.StatusUnauthorized)
			}
		})})
	s, err := web.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s, log
}

// ask has a request answered; headers are given as "Name: value", and Host is one of them.
func ask(h http.Handler, method, target string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	r.Host = "127.0.0.1:8080"
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		if r.Header.Add(name, value); name == "Host" {
			r.Host = value
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

const bearer = "Authorization: Bearer " + token

// TestWhoComesIn has all that a page elsewhere can send, with the token in its cookie, as a browser would add it.
func TestWhoComesIn(t *testing.T) {
	t.Parallel()
	s, log := site(t, web.Options{Token: token, Loopback: true,
		Names: []string{"console.example.com", "other.example.com:8443", "fd00::5"}})
	cookie := strings.Split(ask(s, "GET", "/?token="+token).Header.Get("Set-Cookie"), ";")[0]
	for _, c := range []struct {
		name, target, headers string
		want                  int
	}{
		{"the header", "/in", bearer, 200},
		{"the cookie", "/in", "Cookie: " + cookie, 200},
		{"the cookie behind one of another server", "/in", "Cookie: loopbus_8080=other; " + cookie, 200},
		{"localhost", "/in", "Host: LOCALHOST:8080|" + bearer, 200},
		{"IPv6", "/in", "Host: [::1]:8080|" + bearer, 200},
		{"the name of a proxy", "/in", "Host: console.example.com|" + bearer, 200},
		{"a page of ours", "/in", "Origin: http://127.0.0.1:8080|Sec-Fetch-Site: same-origin|" + bearer, 200},
		{"a page of ours behind a proxy that changes Host", "/in", "Origin: https://console.example.com|" + bearer, 200},
		{"the name of a proxy with a port", "/in", "Host: other.example.com:8443|" + bearer, 200},
		{"a page of ours behind a proxy with a port", "/in", "Origin: https://other.example.com:8443|" + bearer, 200},

		{"no token", "/in", "", 401},
		{"an empty token", "/in", "Authorization: Bearer ", 401},
		{"the beginning of the token", "/in", "Authorization: Bearer " + token[:20], 401},
		{"the token as the cookie", "/in", "Cookie: " + strings.Split(cookie, "=")[0] + "=" + token, 401},
		{"the cookie of another port", "/in", "Cookie: loopbus_9090" + strings.TrimPrefix(cookie, "loopbus_8080"), 401},
		{"no token for the page", "/", "", 401},
		{"no token for a file", "/app.js", "", 401},
		{"a wrong token in the link", "/?token=wrong", "", 401},

		{"DNS rebinding", "/in", "Host: evil.example.com:8080|" + bearer, 421},
		{"DNS rebinding with its own origin", "/in",
			"Host: evil.example.com:8080|Origin: http://evil.example.com:8080|" + bearer, 421},
		{"DNS rebinding for the page", "/", "Host: evil.example.com|" + bearer, 421},
		{"DNS rebinding where the token comes later", "/own?shown=" + token, "Host: evil.example.com", 421},
		{"a name that ends like ours", "/in", "Host: evil-console.example.com|" + bearer, 421},
		{"no host", "/in", "Host: |" + bearer, 421},

		{"a foreign page", "/in", "Origin: https://evil.example.com|Cookie: " + cookie, 403},
		{"a page of another port", "/in", "Origin: http://127.0.0.1:3000|Sec-Fetch-Site: same-site|Cookie: " + cookie, 403},
		{"a page at an IPv6 address", "/in", "Origin: https://[fd00::5]|" + bearer, 200},
		{"a page of another port at an IPv6 address", "/in", "Origin: https://[fd00::5]:9|Cookie: " + cookie, 403},
		{"a page of another port behind a proxy", "/in", "Origin: https://console.example.com:8443|Cookie: " + cookie, 403},
		{"a page of the default port beside a proxy", "/in", "Origin: https://other.example.com|Cookie: " + cookie, 403},
		{"a sandboxed frame", "/in", "Origin: null|Cookie: " + cookie, 403},
		{"a foreign page without CORS", "/in", "Sec-Fetch-Site: cross-site|Sec-Fetch-Mode: no-cors|Cookie: " + cookie, 403},
		{"a page of another port without CORS", "/in",
			"Sec-Fetch-Site: same-site|Sec-Fetch-Mode: no-cors|Cookie: " + cookie, 403},
		{"a foreign page's frame", "/", "Sec-Fetch-Site: cross-site|Sec-Fetch-Mode: navigate|Sec-Fetch-Dest: iframe|" +
			"Cookie: " + cookie, 403},
		{"a foreign page where the token comes later", "/own?shown=" + token, "Origin: https://evil.example.com", 403},
		{"a link to the console", "/s/1", "Accept: text/html|Sec-Fetch-Site: cross-site|Sec-Fetch-Mode: navigate|" +
			"Sec-Fetch-Dest: document|Cookie: " + cookie, 200},

		{"a handler's own token", "/own?shown=" + token, "", 200},
		{"a handler's own token, wrong", "/own?shown=x", "", 401},
		{"a handler's own token, by the cookie", "/own", "Cookie: " + cookie, 200},
	} {
		var headers []string
		if c.headers != "" {
			headers = strings.Split(c.headers, "|")
		}
		if got := ask(s, "GET", c.target, headers...); got.StatusCode != c.want {
			t.Errorf("%s: status %d, want %d", c.name, got.StatusCode, c.want)
		}
	}
	if said := log.String(); strings.Contains(said, token[:10]) || !strings.Contains(said, "evil.example.com") {
		t.Errorf("the log has:\n%s", said)
	}
}

// The token of a link becomes a cookie that scripts do not see, and the address loses it.
func TestLinkAndLogin(t *testing.T) {
	t.Parallel()
	s, log := site(t, web.Options{Token: token, Loopback: true})
	got := ask(s, "GET", "/s/1?a=b&token="+token, "Accept: text/html", "X-Forwarded-Proto: https")
	if at := got.Header.Get("Location"); got.StatusCode != http.StatusSeeOther || at != "/s/1?a=b" {
		t.Errorf("a link: %d to %q", got.StatusCode, at)
	}
	cookie := got.Header.Get("Set-Cookie")
	for _, want := range []string{"loopbus_8080=", "; HttpOnly", "; SameSite=Lax", "; Path=/", "; Secure"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie is %q: no %q", cookie, want)
		}
	}
	if strings.Contains(cookie, token[:10]) || strings.Contains(cookie, "Max-Age") {
		t.Errorf("the cookie is %q", cookie)
	}
	form := func(value string, headers ...string) *http.Response {
		r := httptest.NewRequest("POST", "/login", strings.NewReader(url.Values{"token": {value}}.Encode()))
		r.Host = "127.0.0.1:8080"
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Accept", "text/html")
		for _, line := range headers {
			name, value, _ := strings.Cut(line, ": ")
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Result()
	}
	if got := form(token); got.StatusCode != http.StatusSeeOther || got.Header.Get("Set-Cookie") == "" {
		t.Errorf("the form with the token: %d", got.StatusCode)
	}
	if got := form("no"); got.StatusCode != http.StatusUnauthorized || got.Header.Get("Set-Cookie") != "" {
		t.Errorf("the form with another token: %d", got.StatusCode)
	}
	if got := form(token, "Origin: http://evil.example.com"); got.StatusCode != http.StatusForbidden {
		t.Errorf("the form of a foreign page: %d", got.StatusCode)
	}
	page, err := io.ReadAll(ask(s, "GET", "/", "Accept: text/html").Body)
	if err != nil || !strings.Contains(string(page), `<form method="post" action="/login">`) ||
		strings.Contains(string(page)+log.String(), token[:10]) {
		t.Errorf("who has no token sees %s, %v", page, err)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	s, _ := site(t, web.Options{Loopback: true}) // no token: all are let in
	for target, want := range map[string]string{"/": "<p>console", "/app.js": "export {}", "/lib/x.css": "p {}",
		"/s/s1": "<p>console"} {
		got := ask(s, "GET", target, "Accept: text/html")
		body, err := io.ReadAll(got.Body)
		if err != nil || got.StatusCode != 200 || string(body) != want {
			t.Errorf("%s: %d %q, %v", target, got.StatusCode, body, err)
		}
		for name, part := range map[string]string{"Content-Security-Policy": "script-src 'self'",
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"} {
			if v := got.Header.Get(name); !strings.Contains(v, part) || strings.Contains(v, "unsafe") {
				t.Errorf("%s: %s is %q", target, name, v)
			}
		}
		if again := ask(s, "GET", target, "Accept: text/html", "If-None-Match: "+got.Header.Get("ETag")); again.StatusCode !=
			http.StatusNotModified {
			t.Errorf("%s again: %d", target, again.StatusCode)
		}
	}
	for _, target := range []string{"/lib", "/lib/", "/no.js", "/../site.go", "/%2e%2e/site.go"} {
		if got := ask(s, "GET", target); got.StatusCode == 200 {
			t.Errorf("%s: %d", target, got.StatusCode)
		}
	}
	if got := ask(s, "GET", "/app.js").Header.Get("Content-Type"); !strings.HasPrefix(got, "text/javascript") {
		t.Errorf("a script is %s", got)
	}
}

// More requests at a time than there may be are refused, and accepted again when there is room.
func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	begun, end := make(chan bool), make(chan bool)
	s, _ := site(t, web.Options{Loopback: true, MaxRequests: 2, Mounts: []web.Mount{{Pattern: "/slow",
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { begun <- true; <-end })}}})
	done := make(chan int)
	for range 2 {
		go func() { done <- ask(s, "GET", "/slow").StatusCode }()
		<-begun
	}
	if got := ask(s, "GET", "/in"); got.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the third: %d", got.StatusCode)
	}
	if got := ask(s, "GET", "/app.js"); got.StatusCode != http.StatusOK {
		t.Errorf("a file: %d", got.StatusCode)
	}
	close(end)
	<-done
	<-done
	if got := ask(s, "GET", "/in"); got.StatusCode != 200 {
		t.Errorf("when there is room: %d", got.StatusCode)
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []web.Options{{Token: "short"}, {Token: strings.Repeat("a b", 9)}, {Token: strings.Repeat("ä", 20)},
		{Names: []string{"example.com:0"}}, {Names: []string{"example.com:x"}}, {Names: []string{":80"}},
		{Names: []string{"https://example.com"}}, {Names: []string{"*"}}} {
		if _, err := web.New(o); err == nil || o.Token != "" && strings.Contains(err.Error(), o.Token) {
			t.Errorf("%+v: %v", o.Names, err)
		}
	}
}

// No answer repeats the token of a link, whatever its path is.
func TestNoAnswerRepeatsTheToken(t *testing.T) {
	t.Parallel()
	s, _ := site(t, web.Options{Token: token, Loopback: true})
	for _, at := range []string{"/", "//x/", "/../", "/a/../b", "/./", "/in/", "//", "/own//", "/x%2f..%2f",
		"/%2e%2e/in"} {
		for _, host := range []string{"127.0.0.1:8080", "evil.example.com"} {
			got := ask(s, "GET", at+"?token="+token, "Host: "+host)
			body, err := io.ReadAll(got.Body)
			if err != nil || strings.Contains(string(body)+got.Header.Get("Location"), token) {
				t.Errorf("%s at %s: status %d, Location %q, %q, %v", at, host, got.StatusCode, got.Header.Get("Location"), body,
					err)
			}
			if got.Header.Get("Referrer-Policy") != "no-referrer" {
				t.Errorf("%s at %s: headers %v", at, host, got.Header)
			}
		}
	}
}
