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

const (
	// ahead is how many bytes of a response an HTTP/2 connection takes before somebody reads them. The default is 4 MiB,
	// with which the responses of hundreds of requests have a gigabyte that nothing counts.
	ahead = 64 << 10
	// aheadOfAll is that for all responses of a connection: so many that those that are not read stop no others.
	aheadOfAll = 2048 * ahead
)

// ownTransport returns the transport of requests that have none: [limited] with the limits above.
var ownTransport = sync.OnceValue(func() http.RoundTripper {
	usual, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport // the program has replaced it
	}
	return limited(usual.Clone(), silence)
})

// limited returns a transport with a limit for headers, for what HTTP/2 connections take ahead, and for their silence
// in both directions. It requests no compression: a few bytes of a reply could take as much time to read as many.
func limited(t *http.Transport, silence time.Duration) *http.Transport {
	t.MaxResponseHeaderBytes = maxHeader
	t.DisableCompression = true
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: silence, WriteByteTimeout: 2 * silence,
		MaxReceiveBufferPerStream: ahead, MaxReceiveBufferPerConnection: aheadOfAll}
	return t
}
