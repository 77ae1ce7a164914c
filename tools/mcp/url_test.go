package mcp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/tools/mcp"
)

// secretURL returns a server's configuration with secrets in its URL: one written there, one in its path, and one of a
// variable, with characters that quoting changes.
func secretURL(t *testing.T, origin string) mcp.ServerConfig {
	t.Helper()
	list, err := mcp.ParseConfig([]byte(`{"mcpServers":{"zoo":{"url":"`+origin+
		`/s/path-SECRET-0123456789/mcp?key=query-SECRET&more=${MORE}","headers":{"Authorization":"Bearer xyzzy-plugh"}}}}`),
		func(string) string { return `more"SECRET-abc\def+1` })
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

// Whatever a server does, no text has more of its URL than the scheme and the host: the model and everyone who may read
// the session or a log would know the secrets in it.
func TestNoErrorShowsTheURL(t *testing.T) {
	t.Parallel()
	cut := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	away := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://other.invalid"+r.RequestURI, http.StatusTemporaryRedirect)
	}
	round := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.RequestURI, http.StatusTemporaryRedirect)
	}
	cutElsewhere := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/there") {
			panic(http.ErrAbortHandler)
		}
		http.Redirect(w, r, "there?ticket=SECRET", http.StatusTemporaryRedirect)
	}
	refuse := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		query := r.URL.Query()
		key := query.Get("key")
		says, _ := json.Marshal(fmt.Sprintf("no such key: %s, in %s, %q, %q, \\u0071%s", key, r.RequestURI, query, r.URL,
			key[1:]))
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":%s}}`, r.Header.Get("Test-Id"), says)
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"cut":           {cut, "EOF"},
		"away":          {away, "redirects to another origin, http://other.invalid,"},
		"round":         {round, "redirects more than"},
		"cut elsewhere": {cutElsewhere, "EOF"},
		"refuse":        {refuse, "refused the call: no such key: ***"},
	} {
		for _, when := range []string{"initialize", "tools/call"} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				at := badOverHTTP(t, func(w http.ResponseWriter, r *http.Request, method string, id json.RawMessage) bool {
					if method != when {
						return false
					}
					r.Header.Set("Test-Id", string(id))
					c.answer(w, r)
					return true
				})
				r := start(t, t.TempDir(), secretURL(t, at.URL), when == "tools/call")
				said := ""
				if when == "tools/call" {
					got, failed := r.call(t.Context(), "echo", `{}`)
					said = got.Content.JoinText()
					if !failed || !strings.Contains(said, c.want) {
						t.Errorf("%t %q", failed, said)
					}
				} else {
					r.eventually("it is lost", func() bool { return strings.Contains(r.log.String(), "MCP server lost") })
				}
				r.stop()
				if said += r.log.String(); strings.Contains(said, "SECRET") {
					t.Errorf("it says:\n%s", said)
				}
			})
		}
	}
}

// A redirect to the same origin is followed from the URL as it is configured.
func TestRedirectsFromTheWholeURL(t *testing.T) {
	t.Parallel()
	at := badOverHTTP(t, func(w http.ResponseWriter, r *http.Request, method string, _ json.RawMessage) bool {
		want := "/s/path-SECRET-0123456789/mcp"
		if method == "tools/call" && !strings.HasSuffix(r.URL.Path, "/there") {
			http.Redirect(w, r, "there?"+r.URL.RawQuery, http.StatusTemporaryRedirect)
			return true
		}
		if method == "tools/call" {
			want = "/s/path-SECRET-0123456789/there"
		}
		query, err := url.ParseQuery(r.URL.RawQuery)
		if r.URL.Path != want || query.Get("key") != "query-SECRET" || err != nil {
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, "not here")
			return true
		}
		return false
	})
	r := start(t, t.TempDir(), secretURL(t, at.URL), true)
	r.want("echo", `{}`, "ok", false)
}
