package transport_test

import (
	"bytes"
	"io"
	"net/http"
	"runtime"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/providers/internal/transport"
)

// TestAnsweredRequestsAreForgotten checks that nothing refers to the body of a request while the response is read.
func TestAnsweredRequestsAreForgotten(t *testing.T) {
	req, url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "begun")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	freed := make(chan struct{})
	resp := func() *http.Response {
		body := make([]byte, 1<<20)
		runtime.AddCleanup(&body[0], func(done chan struct{}) { close(done) }, freed)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.New(req).Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}()
	bustest.Eventually(t, "the body is freed", func() bool {
		runtime.GC()
		select {
		case <-freed:
			return true
		default:
			return false
		}
	})
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
}
