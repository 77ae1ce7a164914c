package providers_test

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
)

// FuzzStream feeds arbitrary bytes to every API's decoder. The stream must be well formed, nothing may panic, and the
// sizes of the reads must not matter. api selects the API.
func FuzzStream(f *testing.F) {
	names := served()
	for i, api := range names {
		for _, body := range [][]byte{wireReplies[api].text(2), wireReplies[api].call(2)} {
			f.Add(uint8(i), body)
			f.Add(uint8(i), body[:len(body)/2])
			f.Add(uint8(i), bytes.ReplaceAll(body, []byte(`"`), []byte(`1`)))
			f.Add(uint8(i), bytes.ReplaceAll(body, []byte(`{`), []byte(`[`)))
			f.Add(uint8(i), bytes.ReplaceAll(body, []byte(`"words `), []byte(`"\ud83d`)))
		}
		f.Add(uint8(i), []byte(`{"error":{"message":"no"}}`))
		f.Add(uint8(i), []byte("data: null\n\ndata: []\n\ndata: {\"choices\":[null]}\n\n"))
	}
	f.Fuzz(func(t *testing.T, api uint8, body []byte) {
		name := names[int(api)%len(names)]
		whole := streamBytes(t, name, bytes.NewReader(body))
		checkWellFormed(t, whole)
		inBytes := streamBytes(t, name, iotest.OneByteReader(bytes.NewReader(body)))
		if d := gocmp.Diff(whole, inBytes); d != "" {
			t.Errorf("byte by byte it is something else (-whole +bytes):\n%s", d)
		}
	})
}

// cannedBody is a transport that returns this body for every request.
type cannedBody struct {
	contentType string
	body        io.Reader
}

func (c cannedBody) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {c.contentType}}, Body: io.NopCloser(c.body),
		Request: r,
	}, nil
}

// streamBytes returns the events that the API yields for a body, without timestamps.
func streamBytes(t *testing.T, api string, body io.Reader) (events []schemas.StreamEvent) {
	transport := cannedBody{contentType: cmp.Or(wireReplies[api].contentType, "text/event-stream"), body: body}
	for e, err := range apis[api](t.Context(), wireRequest(api, "http://vendor.invalid",
		&http.Client{Transport: transport})) {
		if err != nil {
			t.Fatalf("the iterator yielded the error %v", err)
		}
		if e.Message != nil {
			e.Message.Timestamp = 0
		}
		events = append(events, e)
	}
	return events
}

// checkWellFormed checks the events of a stream against the contract of [schemas.StreamEvent].
func checkWellFormed(t *testing.T, events []schemas.StreamEvent) {
	t.Helper()
	open, blocks := make(map[int]bool), 0
	for i, e := range events {
		kind := string(e.Type)
		isStart := strings.HasSuffix(kind, "_start")
		switch last := i == len(events)-1; {
		case e.Terminal() != last:
			t.Fatalf("event %d of %d is %s", i, len(events), kind)
		case last:
			checkFinal(t, e, blocks)
		case (i == 0) != (e.Type == schemas.StreamStart):
			t.Fatalf("event %d is %s", i, kind)
		case i == 0:
		case isStart && e.ContentIndex != blocks, !isStart && !open[e.ContentIndex]:
			t.Fatalf("event %d: %s of block %d, %d blocks so far", i, kind, e.ContentIndex, blocks)
		case isStart:
			open[blocks] = true
			blocks++
		case strings.HasSuffix(kind, "_end"):
			delete(open, e.ContentIndex)
		}
	}
	if len(events) == 0 {
		t.Fatal("no events")
	}
}

func checkFinal(t *testing.T, e schemas.StreamEvent, blocks int) {
	t.Helper()
	m := e.Message
	if m == nil || m.StopReason != e.Reason || len(m.Content) != blocks {
		t.Fatalf("%s %q after %d blocks has the message %+v", e.Type, e.Reason, blocks, m)
	}
	if (m.ErrorMessage != "") != m.Failed() || strings.HasPrefix(m.ErrorMessage, "panic") {
		t.Fatalf("error text %q with %s", m.ErrorMessage, m.StopReason)
	}
	if _, err := schemas.Marshal(m); err != nil {
		t.Fatal(err)
	}
}
