package mcp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
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
		{"[1", "[1"},
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
