package transport

import (
	"net/http"
	"sync"
	"time"
)

// maxHeader limits the bytes of a response's headers. Parsed, tiny headers use some fifteen times their size.
const maxHeader = 64 << 10

// writeTimeout is how long a server may take no byte before its HTTP/2 connection is closed.
const writeTimeout = 30 * time.Second

// ownTransport returns the transport of requests that have none. It is http.DefaultTransport with limits for headers
// and for writing, and requests no compression: a few bytes of a reply could take as much time to read as many.
var ownTransport = sync.OnceValue(func() http.RoundTripper {
	usual, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport // the program has replaced it
	}
	own := usual.Clone()
	own.MaxResponseHeaderBytes = maxHeader
	own.DisableCompression = true
	own.HTTP2 = &http.HTTP2Config{WriteByteTimeout: writeTimeout}
	return own
})
