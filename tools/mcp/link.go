package mcp

import (
	"maps"
	"mime"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/tools/internal/environ"
)

// terminateWait is how long a process may take to end once its input is closed, and again after SIGTERM.
const terminateWait = 2 * time.Second

// A link is one way to a server, for one session.
type link struct {
	transport sdk.Transport
	end       func()        // after the session: nothing of it stays
	lastWords func() string // what a process said last on its standard error, for an error text
}

func (b *Bridge) link() link {
	if b.o.Server.URL != "" {
		return b.httpLink()
	}
	return b.processLink()
}

// processLink starts a process of its own group: what it has started ends with it.
func (b *Bridge) processLink() link {
	s := b.o.Server
	cmd := exec.Command(s.Command, s.Args...)
	cmd.Env = environ.Allowed(b.o.Environ, environ.Default())
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		cmd.Env = append(cmd.Env, name+"="+s.Env[name]) // the last one counts
	}
	said := &stderr{log: b.log, secret: b.secret}
	cmd.Stderr = said
	cmd.WaitDelay = terminateWait // for a child that holds the standard error open
	ownGroup(cmd)
	return link{
		transport: impatient{&sdk.CommandTransport{Command: cmd, TerminateDuration: terminateWait},
			b.o.WriteTimeout, func() { killGroup(cmd) }},
		end:       func() { killGroup(cmd) },
		lastWords: said.last,
	}
}

// httpLink sends the headers to the URL's own host only, wherever it redirects to.
func (b *Bridge) httpLink() link {
	s := b.o.Server
	home, _ := url.Parse(s.URL) // was checked
	inner := http.DefaultTransport.(*http.Transport).Clone()
	return link{
		transport: &sdk.StreamableClientTransport{Endpoint: s.URL, HTTPClient: &http.Client{
			Transport: &headerTransport{inner: inner, home: home, headers: s.Headers},
		}},
		end:       inner.CloseIdleConnections,
		lastWords: func() string { return "" },
	}
}

// headerTransport adds headers to requests that go home.
type headerTransport struct {
	inner   http.RoundTripper
	home    *url.URL
	headers map[string]string
}

// RoundTrip leaves the request as it is and sends a copy.
func (t *headerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == t.home.Scheme && r.URL.Host == t.home.Host {
		r = r.Clone(r.Context())
		for name, value := range t.headers {
			r.Header.Set(name, value)
		}
	}
	resp, err := t.inner.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // what cannot be read is no stream
	events := media == "text/event-stream"
	if !events {
		resp.Body = http.MaxBytesReader(nil, resp.Body, sdk.DefaultMaxEventSize)
	}
	resp.Body = &counted{ReadCloser: resp.Body, events: events}
	return resp, nil
}
