package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// unreadAnswer is the answer to an HTTP request that goes on, until it is written and the request has ended.
type unreadAnswer struct {
	got          sdk.Result
	err          error
	written, end func()
}

// answer has a gateway answer a request.
func answer(t *testing.T, g *Gateway, result sdk.Result) unreadAnswer {
	t.Helper()
	ctx, written := context.WithCancel(t.Context())
	request, end := context.WithCancel(t.Context())
	a, ready := unreadAnswer{written: written, end: end}, make(chan struct{})
	handler := g.posts.note(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		next := func(context.Context, string, sdk.Request) (sdk.Result, error) { return result, nil }
		a.got, a.err = g.bounded(next)(ctx, "", &sdk.ListToolsRequest{Extra: &sdk.RequestExtra{Header: r.Header}})
		close(ready)
		<-r.Context().Done()
	}))
	go handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(request, http.MethodPost, "/", nil))
	<-ready
	return a
}

// An answer has its room until it has been written and its request has ended; one without room becomes an error.
func TestUnreadAnswersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewGateway(GatewayOptions{})
		list := &sdk.ListToolsResult{Tools: []*sdk.Tool{{InputSchema: make(json.RawMessage, maxUnread/2+1)}}}
		call := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Repeat("\x00", maxUnread/12+1)}}}
		small := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Repeat("x", freely/2)}}}
		first := answer(t, g, list)
		if first.got != list || first.err != nil {
			t.Fatalf("the first: %v, %v", first.got, first.err)
		}
		full := func(when string) {
			t.Helper()
			synctest.Wait()
			if a := answer(t, g, list); a.got != nil || a.err != errUnread {
				t.Errorf("%s, a list: %v, %v", when, a.got, a.err)
			}
			if r, ok := answer(t, g, call).got.(*sdk.CallToolResult); !ok || !r.IsError {
				t.Errorf("%s, a call: %v", when, r)
			}
			if a := answer(t, g, small); a.got != small {
				t.Errorf("%s, a small one: %v, %v", when, a.got, a.err)
			}
		}
		full("while the first is written")
		first.written()
		full("while its request goes on")
		first.end()
		synctest.Wait()
		second := answer(t, g, call)
		if second.got != call {
			t.Errorf("after the first: %v, %v", second.got, second.err)
		}
		second.end()
		full("while the second is written, whose request has ended")
		second.written()
		synctest.Wait()
		if held := g.unread.held.Load(); held != 0 {
			t.Errorf("%d bytes are held at the end", held)
		}
	})
}

// The answer to a request that has ended is not made.
func TestAnswersWithoutRequest(t *testing.T) {
	t.Parallel()
	g := NewGateway(GatewayOptions{})
	for header, want := range map[string]bool{"": true, "7": false} {
		req := &sdk.ListToolsRequest{}
		if header != "" {
			req.Extra = &sdk.RequestExtra{Header: http.Header{postHeader: {header}}}
		}
		next := func(context.Context, string, sdk.Request) (sdk.Result, error) { return &sdk.ListToolsResult{}, nil }
		if got, err := g.bounded(next)(t.Context(), "", req); (got != nil) != want || (err == nil) != want {
			t.Errorf("HTTP request %q: %v, %v", header, got, err)
		}
	}
}
