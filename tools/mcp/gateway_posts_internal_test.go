package mcp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Of clients' notifications, the SDK gets only those that the server needs.
func TestNotificationsThatAreNotNeeded(t *testing.T) {
	t.Parallel()
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"a":[1]}}}`
	const cancelled = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"_meta":{"a":[1]}}}`
	large := strings.Replace(cancelled, "1}", `1,"reason":"`+strings.Repeat("x", maxNotification)+`"}`, 1)
	for _, c := range []struct{ body, got string }{
		{call, call},
		{cancelled, cancelled},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{progress, ""},
		{large, ""},
		{"[" + progress + "," + large + "]", ""},
		{"[" + call + " , " + cancelled + "]", "[" + call + " , " + cancelled + "]"},
		{"[" + progress + "," + call + "]", "[" + call + "]"},
		{"no JSON", "no JSON"},
		{"[]", "[]"},
	} {
		got := ""
		never := func() bool { return false }
		handler := new(bodies).hold(never, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			data, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			got = string(data)
		}))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(c.body)))
		if got != c.got || got == "" && w.Code != http.StatusAccepted {
			t.Errorf("%.100s: %.100q, status %d", c.body, got, w.Code)
		}
	}
}

// The SDK gets no batch of more than a few messages, and none that it might read otherwise.
func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	batch := func(n int) string { return " [" + strings.Repeat(ping+",", n-1) + ping + "]" }
	for body, want := range map[string]int{
		batch(maxBatch): http.StatusOK, batch(maxBatch + 1): http.StatusBadRequest, "[1": http.StatusBadRequest,
	} {
		passed := false
		handler := new(bodies).hold(func() bool { return false }, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			passed = true
		}))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
		if w.Code != want || passed != (want == http.StatusOK) {
			t.Errorf("%.60s, %d bytes: status %d, %s", body, len(body), w.Code, w.Body)
		}
	}
}

// What the SDK keeps of a client as long as its session is bounded; what a call works on is not.
func TestIntroductionsAreBounded(t *testing.T) {
	t.Parallel()
	request := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
	}
	long := `"` + strings.Repeat("x", maxIntroduction) + `"`
	for _, c := range []struct {
		body string
		want int
	}{
		{request("initialize", `{"clientInfo":{"name":"x"}}`), http.StatusOK},
		{request("initialize", `{"clientInfo":{"name":`+long+`}}`), http.StatusRequestEntityTooLarge},
		{request("tools/call", `{"name":"x","arguments":{"a":`+long+`},"_meta":{"progressToken":1}}`), http.StatusOK},
		{request("tools/call", `{"name":"x","_meta":{"a":`+long+`}}`), http.StatusRequestEntityTooLarge},
		{"[" + request("ping", `{"_meta":{"a":`+long+`}}`) + "]", http.StatusRequestEntityTooLarge},
	} {
		passed := false
		handler := new(bodies).hold(func() bool { return false }, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			passed = true
		}))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(c.body)))
		if w.Code != c.want || passed != (c.want == http.StatusOK) {
			t.Errorf("%.80s, %d bytes: status %d, %s", c.body, len(c.body), w.Code, w.Body)
		}
	}
}

// What is held for a body of unknown length is its size, once it is known; requests without a body hold nothing.
func TestBodiesHoldTheirSize(t *testing.T) {
	t.Parallel()
	const waiting = 4 * maxBodies / maxBody
	b, arrived, leave := new(bodies), make(chan struct{}), make(chan struct{})
	handler := b.hold(func() bool { return false }, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-leave
	}))
	var ended sync.WaitGroup
	ask := func(method, body string) {
		ended.Go(func() {
			r := httptest.NewRequest(method, "/", io.NopCloser(strings.NewReader(body)))
			r.ContentLength = -1
			w := httptest.NewRecorder()
			if handler.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Errorf("%s: status %d", method, w.Code)
				arrived <- struct{}{}
			}
		})
		<-arrived
	}
	for range waiting {
		ask(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		ask(http.MethodGet, "")
	}
	if held := b.held.Load(); held != waiting*40 {
		t.Errorf("%d bytes are held", held)
	}
	close(leave)
	if ended.Wait(); b.held.Load() != 0 {
		t.Errorf("%d bytes are held at the end", b.held.Load())
	}
}
