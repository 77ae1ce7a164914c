package providers_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

// TestRequestsTakeBoundedMemory measures what a request takes besides its messages. Until the model answers that is at
// most four times its JSON, for which the driver waits for room, and nothing once it answers. It is not parallel,
// because it measures the heap.
func TestRequestsTakeBoundedMemory(t *testing.T) {
	const size = 4 << 20
	held := func() int {
		for range 3 { // what is in a sync.Pool survives one collection, what has a finalizer another
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	for _, api := range served() {
		var sent int
		read := make(chan struct{})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			sent = held()
			reply := wireReplies[api].text(1)
			beginHead(api, w)
			_, _ = w.Write(reply[:len(reply)/2])
			w.(http.Flusher).Flush()
			<-read
			_, _ = w.Write(reply[len(reply)/2:])
		}))
		client := &http.Transport{}
		req := wireRequest(api, s.URL, &http.Client{Transport: client})
		text := schemas.Text{Text: strings.Repeat("x", size)}
		req.Messages = schemas.Messages{&schemas.UserMessage{Content: schemas.Contents{text}}}
		before, answered, begun := held(), 0, false
		for e, err := range apis[api](t.Context(), req) {
			if err != nil || e.Type == schemas.StreamError {
				t.Fatal(api, err, e.Message)
			}
			if begun {
				continue
			}
			begun = true
			answered = held()
			if n := answered - before; n > size/2 {
				t.Errorf("%s: a request of %d bytes takes %d once it is answered", api, size, n)
			}
			close(read)
		}
		if n := sent - before; n > 4*size || sent-answered < size/2 { // before may count what the last request had
			t.Errorf("%s: a request of %d bytes takes %d when it is sent, %d more than afterwards", api, size, n, sent-answered)
		}
		client.CloseIdleConnections()
		s.Close()
	}
}
