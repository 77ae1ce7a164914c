package mcp

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	idleSession = time.Hour // how long a client's session over HTTP lives without a request
	maxSessions = 1024      // of clients over HTTP
)

// ServeIO serves one client over in and out, one message per line, until the client closes in or ctx ends. It closes
// both. Nothing else may be written to out in the meantime.
func (g *Gateway) ServeIO(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	err := g.server.Run(ctx, &sdk.IOTransport{Reader: in, Writer: out})
	for _, gone := range []error{io.EOF, io.ErrClosedPipe, fs.ErrClosed, sdk.ErrConnectionClosed, ctx.Err()} {
		if gone != nil && errors.Is(err, gone) {
			return nil
		}
	}
	return err
}

// Handler serves clients over streamable HTTP. If token is not empty, it serves only clients that send it
// (Authorization: Bearer). It refuses web pages of other origins, and requests to a loopback address with a different
// host name. It reads bodies after checking the token, as many at a time as fit in 64 MiB, within the server's time
// limit for a request. An answer may take any time.
func (g *Gateway) Handler(token string) http.Handler {
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return g.server },
		&sdk.StreamableHTTPOptions{SessionTimeout: idleSession, PropagateRequestCancellation: true})
	return http.NewCrossOriginProtection().Handler(authorized(token, g.bodies.hold(g.full, g.posts.note(handler))))
}

func authorized(token string, next http.Handler) http.Handler {
	if token == "" {
		return next
	}
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(strings.TrimSpace(given)))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the token is missing or wrong", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// full reports whether there are maxSessions sessions.
func (g *Gateway) full() bool {
	n := 0
	for range g.server.Sessions() {
		n++
	}
	return n >= maxSessions
}

// Close ends the sessions of all clients.
func (g *Gateway) Close() {
	for session := range g.server.Sessions() {
		_ = session.Close() // an error changes nothing: the session ends in any case
	}
}
