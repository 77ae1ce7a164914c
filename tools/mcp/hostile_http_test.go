package mcp_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loopbus/loopbus/tools/mcp"
)

// badOverHTTP is a server with one tool that behaves well but for what answer answers, which says whether it has.
// Method is that of the message, or GET and DELETE.
func badOverHTTP(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, method string, id json.RawMessage,
) bool) mcp.ServerConfig {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := struct {
			ID     json.RawMessage
			Method string
		}{Method: r.Method}
		if r.Method == http.MethodPost {
			if json.NewDecoder(r.Body).Decode(&m) != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
		}
		if answer(w, r, m.Method, m.ID) {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case "GET":
			w.WriteHeader(http.StatusMethodNotAllowed)
		case "initialize":
			w.Header().Set("Mcp-Session-Id", "s")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":`+
				`{"tools":{"listChanged":true}},"serverInfo":{"name":"zoo","version":"1"}}}`, m.ID)
		case "tools/list":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"echo",`+
				`"inputSchema":{"type":"object"}}]}}`, m.ID)
		case "tools/call":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"ok"}]}}`, m.ID)
		default:
			if m.ID == nil {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID)
		}
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return parse(t, `{"url":"`+s.URL+`","headers":{"Authorization":"Bearer ${WORD}"}}`)
}

// endless writes blocks until the client has gone, up to a gigabyte, and counts the bytes.
func endless(w http.ResponseWriter, block []byte, sent *atomic.Int64) {
	for sent.Load() < 1<<30 {
		n, err := w.Write(block)
		sent.Add(int64(n))
		if err != nil {
			return
		}
	}
}

// A failure is no stream of events, whatever it says: no more of it is read than of any refusal. What is packed counts
// unpacked.
func TestFailuresWithoutAnEnd(t *testing.T) {
	t.Parallel()
	blank := bytes.Repeat([]byte("\n"), 1<<20)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for range 16 {
		_, _ = z.Write(blank)
	}
	_ = z.Close()
	for _, when := range []string{"initialize", "GET", "tools/list", "tools/call"} {
		for _, status := range []int{400, 404, 501} {
			for _, encoding := range []string{"", "gzip"} {
				t.Run(fmt.Sprint(when, status, encoding), func(t *testing.T) {
					t.Parallel()
					var sent atomic.Int64
					ended := make(chan bool, 64)
					c := badOverHTTP(t, func(w http.ResponseWriter, _ *http.Request, method string, _ json.RawMessage) bool {
						if method != when {
							return false
						}
						w.Header().Set("Content-Type", "text/event-stream")
						if encoding != "" {
							w.Header().Set("Content-Encoding", encoding)
						}
						w.WriteHeader(status)
						if encoding == "" {
							endless(w, blank, &sent)
						} else {
							endless(w, packed.Bytes(), &sent)
						}
						ended <- true
						return true
					})
					r := start(t, t.TempDir(), c, when == "tools/call")
					if when == "tools/call" {
						if got, failed := r.call(t.Context(), "echo", `{}`); !failed {
							t.Errorf("%q", got.Content.JoinText())
						}
					}
					select {
					case <-ended:
					case <-time.After(patience):
						t.Fatal("it is read on and on")
					}
					r.stop()
					if most := int64(32 << 20); sent.Load() > most {
						t.Errorf("%d MiB were taken", sent.Load()>>20)
					}
				})
			}
		}
	}
}

// A server that dawdles keeps neither itself from being tried again, nor the worker from stopping.
func TestAServerThatDawdles(t *testing.T) {
	t.Parallel()
	drip := func(status int, media string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			if status == 0 { // not even headers
				<-r.Context().Done()
				return
			}
			w.Header().Set("Content-Type", media)
			w.WriteHeader(status)
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for {
				if _, err := io.WriteString(w, "\n"); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
				select {
				case <-tick.C:
				case <-r.Context().Done():
					return
				}
			}
		}
	}
	for name, c := range map[string]struct {
		when   string
		drip   func(http.ResponseWriter, *http.Request)
		offers bool // the tools are known all the same
		lost   bool // the session is given up
	}{
		"a refused stream":         {"GET", drip(501, "text/event-stream"), false, true},
		"a refused stream of JSON": {"GET", drip(501, "application/json"), true, false},
		"a stream that says no":    {"GET", drip(404, "text/event-stream"), true, false},
		"a stream":                 {"GET", drip(200, "text/event-stream"), true, false},
		"no stream":                {"GET", drip(0, ""), true, false},
		"no answer":                {"initialize", drip(0, ""), false, true},
		"an answer of JSON":        {"initialize", drip(200, "application/json"), false, true},
		"an answer of events":      {"tools/list", drip(200, "text/event-stream"), false, true},
		"a refusal":                {"initialize", drip(400, "text/plain"), false, true},
		"a refused list":           {"tools/list", drip(400, "text/event-stream"), false, true},
		"no end":                   {"DELETE", drip(0, ""), true, false},
		"no word of the start":     {"notifications/initialized", drip(0, ""), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := badOverHTTP(t, func(w http.ResponseWriter, r *http.Request, method string, _ json.RawMessage) bool {
				if method == c.when {
					c.drip(w, r)
				}
				return method == c.when
			})
			r := start(t, t.TempDir(), server, c.offers, func(o *mcp.BridgeOptions) {
				o.StartTimeout, o.WriteTimeout = 2*time.Second, 500*time.Millisecond
				if c.lost { // the test waits for it, twice
					o.StartTimeout, o.WriteTimeout = 500*time.Millisecond, 200*time.Millisecond
				}
			})
			if c.lost {
				r.eventually("it is tried again", func() bool {
					return strings.Count(r.log.String(), "MCP server lost, trying again") >= 2
				})
			} else {
				r.want("echo", `{}`, "ok", false)
			}
			stopped := make(chan struct{})
			go func() { defer close(stopped); r.stop() }()
			select {
			case <-stopped:
			case <-time.After(10 * time.Second): // far more than it takes
				t.Fatal("it does not stop")
			}
		})
	}
}

// A list ends, however many pages it has.
func TestAListWithoutAnEnd(t *testing.T) {
	t.Parallel()
	var pages atomic.Int64
	r := start(t, t.TempDir(), badOverHTTP(t, func(w http.ResponseWriter, _ *http.Request, method string,
		id json.RawMessage) bool {
		if method != "tools/list" {
			return false
		}
		tool := ""
		n := pages.Add(1)
		if n == 1 {
			tool = `{"name":"echo","inputSchema":{"type":"object"}}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s],"nextCursor":"%d"}}`, id, tool, n)
		return true
	}), true)
	if n := pages.Load(); n != 256 {
		t.Errorf("%d pages were read", n)
	}
	r.want("echo", `{}`, "ok", false)
	if !strings.Contains(r.log.String(), "too many pages") {
		t.Errorf("log:\n%s", r.log)
	}
}

// Of an error that a server makes, no more than a part is logged.
func TestALongErrorIsCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long ", 1<<20)
	var lists atomic.Int64
	r := start(t, t.TempDir(), badOverHTTP(t, func(w http.ResponseWriter, _ *http.Request, method string,
		id json.RawMessage) bool {
		switch method {
		case "GET":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
			return true
		case "tools/list":
			if lists.Add(1) > 1 {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-5,"message":"%s"}}`, id, long)
				return true
			}
		}
		return false
	}), true)
	r.eventually("a changed list is not read", func() bool { return strings.Contains(r.log.String(), "not read") })
	if n := len(r.log.String()); n > 512<<10 {
		t.Errorf("%d bytes are logged", n)
	}
}

// Streams are not opened again without pause, whatever the server says of that.
func TestAStreamThatEndsAtOnce(t *testing.T) {
	t.Parallel()
	var streams atomic.Int64
	r := start(t, t.TempDir(), badOverHTTP(t, func(w http.ResponseWriter, _ *http.Request, method string,
		_ json.RawMessage) bool {
		if method != "GET" {
			return false
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "retry: 1\nid: %d\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n",
			streams.Add(1))
		return true
	}), true)
	begun := time.Now()
	r.eventually("it is opened again", func() bool { return streams.Load() >= 4 })
	if took := time.Since(begun); took < 2*time.Second {
		t.Errorf("three streams within %v", took)
	}
	r.want("echo", `{}`, "ok", false)
}

// The headers of a response are in memory for as long as it is read, and tiny ones take many times their size there.
func TestBridgeTakesNoThousandsOfHeaders(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), badOverHTTP(t, func(w http.ResponseWriter, _ *http.Request, method string,
		_ json.RawMessage) bool {
		headers := 200
		if method == "tools/call" {
			headers = 2_000
		}
		for n := range headers {
			w.Header()[strconv.Itoa(n)] = []string{""}
		}
		return false
	}), true)
	got, failed := r.call(t.Context(), "echo", `{"text":"mine"}`)
	if text := got.Content.JoinText(); !failed || !strings.Contains(text, "more than 256 headers") {
		t.Errorf("%t %q", failed, text)
	}
}

// What was meant for one server goes to no other.
func TestBridgeFollowsNoRedirectToOthers(t *testing.T) {
	t.Parallel()
	var others atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { others.Add(1) }))
	t.Cleanup(other.Close)
	r := start(t, t.TempDir(), badOverHTTP(t, func(w http.ResponseWriter, r *http.Request, method string,
		_ json.RawMessage) bool {
		switch {
		case method == "tools/list" && r.URL.Path != "/here": // the same origin
			http.Redirect(w, r, "/here", http.StatusTemporaryRedirect)
		case method == "tools/call":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		default:
			return false
		}
		return true
	}), true)
	got, failed := r.call(t.Context(), "echo", `{"text":"mine"}`)
	if text := got.Content.JoinText(); !failed || !strings.Contains(text, "redirects to another origin") {
		t.Errorf("%t %q", failed, text)
	}
	if n := others.Load(); n != 0 {
		t.Errorf("the other host was asked %d times", n)
	}
}

// A server that asks and asks, and takes no answer, is given up.
func TestAServerThatAsksWithoutAnEnd(t *testing.T) {
	t.Parallel()
	var most atomic.Int64
	r := start(t, t.TempDir(), badOverHTTP(t, func(w http.ResponseWriter, r *http.Request, method string,
		_ json.RawMessage) bool {
		switch method {
		case "": // an answer to one of them
			most.Add(1)
			<-r.Context().Done()
		case "GET":
			w.Header().Set("Content-Type", "text/event-stream")
			for n := 0; n < 5000 && r.Context().Err() == nil; n++ {
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"%d\",\"method\":\"ping\"}\n\n", n)
			}
			<-r.Context().Done()
		default:
			return false
		}
		return true
	}), true)
	r.eventually("the session is given up", func() bool { return strings.Contains(r.log.String(), "MCP server lost") })
	r.stop()
	if n := most.Load(); n > 1000 {
		t.Errorf("%d answers were under way", n)
	}
}

// Responses are not requested packed: a few bytes of an endless stream would take as much time to decode as many.
func TestNothingIsRequestedPacked(t *testing.T) {
	t.Parallel()
	var asked, packed atomic.Int64
	c := badOverHTTP(t, func(_ http.ResponseWriter, r *http.Request, _ string, _ json.RawMessage) bool {
		asked.Add(1)
		if r.Header.Get("Accept-Encoding") != "" {
			packed.Add(1)
		}
		return false
	})
	r := start(t, t.TempDir(), c, true)
	r.want("echo", "{}", "ok", false)
	if asked.Load() < 3 || packed.Load() > 0 {
		t.Errorf("%d of %d requests accept packed responses", packed.Load(), asked.Load())
	}
}
