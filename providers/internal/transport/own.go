package transport

import (
	"net/http"
	"sync"
	"time"
)

const (
	// maxHeader limits the bytes of a response's headers. Parsed, tiny headers use some fifteen times their size.
	maxHeader = 64 << 10
	// maxHeaders limits how many there are, as they are kept as long as the reply takes. Vendors send some forty.
	maxHeaders = 256
)

// silence is how long an HTTP/2 connection may be silent before it is sent a PING, and then before it is closed. All
// requests to a host share a connection: without PINGs a dead one would fail them, and their retries, for minutes.
const silence = 15 * time.Second

// ownTransport returns the transport of requests that have none: [limited] with the limits above.
var ownTransport = sync.OnceValue(func() http.RoundTripper {
	usual, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport // the program has replaced it
	}
	return limited(usual.Clone(), silence)
})

// limited returns a transport with a limit for headers and for the silence of HTTP/2 connections, in both directions.
// It requests no compression: a few bytes of a reply could take as much time to read as many.
func limited(t *http.Transport, silence time.Duration) *http.Transport {
	t.MaxResponseHeaderBytes = maxHeader
	t.DisableCompression = true
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: silence, WriteByteTimeout: 2 * silence}
	return t
}
