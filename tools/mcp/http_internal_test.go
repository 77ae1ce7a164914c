package mcp

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/loopbus/loopbus/tools/mcp/internal/wire"
)

// Of the large answers of a server, two are read at once, as a message or as a stream of events.
func TestLargeAnswersTakeTurns(t *testing.T) {
	t.Parallel()
	for _, media := range []string{"application/json", "text/event-stream"} {
		synctest.Test(t, func(t *testing.T) {
			all := func(m jsonrpc.Message) (jsonrpc.Message, error) { return m, nil }
			link := &httpTransport{gate: wire.NewGate(smallAnswer, 2), sift: all}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			bodies := make(chan io.Closer, 8)
			for range cap(bodies) {
				answer := "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"" + strings.Repeat("x", 2*smallAnswer) + "\"}\n\n"
				resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {media}},
					Body: io.NopCloser(strings.NewReader(answer))}
				go func() {
					body := link.bounded(ctx, resp, func() {})
					if _, err := io.ReadFull(body, make([]byte, len(answer))); err == nil {
						bodies <- body
					}
				}()
			}
			for range cap(bodies) / 2 {
				if synctest.Wait(); len(bodies) != 2 {
					t.Fatalf("%s: %d answers were read", media, len(bodies))
				}
				for range 2 {
					_ = (<-bodies).Close()
				}
			}
		})
	}
}
