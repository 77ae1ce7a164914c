package providers_test

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// script describes what the server does.
type script struct {
	Refuse  bool    `json:"refuse"`
	Replies []reply `json:"replies"`
}

type reply struct {
	Status      int               `json:"status"`
	Headers     map[string]string `json:"headers"`
	JSON        json.RawMessage   `json:"json"`
	Chunks      []json.RawMessage `json:"chunks"`
	CutAt       []int             `json:"cutAt"`
	CutEvery    int               `json:"cutEvery"`
	GapMs       *int              `json:"gapMs"`
	End         string            `json:"end"`
	HoldHeaders bool              `json:"holdHeaders"`
}

const dropDelay = 150 * time.Millisecond // lets the client read what was sent before the connection breaks

// abortion is the moment at which the caller of a case cancels its request.
type abortion struct {
	When  string `json:"when"`
	Chunk int    `json:"chunk"` // of afterChunk: the last chunk that the server writes
}

// The moments of an [abortion].
const (
	abortBeforeCall  = "beforeCall"
	abortHoldHeaders = "holdHeaders" // the request has arrived
	abortAfterChunk  = "afterChunk"
	abortAfterReply  = "afterReply" // the server has written its reply
)

var abortMoments = []string{abortBeforeCall, abortHoldHeaders, abortAfterChunk, abortAfterReply}

// fakeVendor plays a script.
type fakeVendor struct {
	script script
	abort  *abortion // nil if the request is not cancelled
	last   int       // the number of the request that is cancelled, from 1

	mu       sync.Mutex
	requests []sentRequest
	reached  chan struct{} // closed once the client may be made to abort
	closed   bool
}

type sentRequest struct {
	Method, Path string
	Headers      http.Header
	Body         []byte
}

// newFakeVendor returns the server of a script. If a request is cancelled, it is the last one.
func newFakeVendor(s script, abort *abortion, requests int) *fakeVendor {
	return &fakeVendor{script: s, abort: abort, last: max(1, requests), reached: make(chan struct{})}
}

// abortsAt reports whether the client cancels the nth request at this moment.
func (v *fakeVendor) abortsAt(n int, when string) bool {
	return v.abort != nil && v.abort.When == when && n == v.last
}

// start returns the server's URL. The server does not listen if the script says so.
func (v *fakeVendor) start(t *testing.T) string {
	if v.script.Refuse {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		return "http://" + l.Addr().String()
	}
	s := httptest.NewUnstartedServer(v)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

func (v *fakeVendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	v.mu.Lock()
	v.requests = append(v.requests, sentRequest{r.Method, r.RequestURI, r.Header.Clone(), body})
	n := len(v.requests)
	v.mu.Unlock()
	reply := v.script.Replies[min(n, len(v.script.Replies))-1]
	if v.abortsAt(n, abortHoldHeaders) {
		v.reach()
	}
	if reply.HoldHeaders || v.abortsAt(n, abortHoldHeaders) {
		<-r.Context().Done()
		return
	}
	for name, value := range reply.header() {
		w.Header().Set(name, value)
	}
	w.WriteHeader(cmp.Or(reply.Status, http.StatusOK))
	v.send(w, r, n, reply)
}

// send writes the body of the nth reply in pieces and ends it as the script requires.
func (v *fakeVendor) send(w http.ResponseWriter, r *http.Request, n int, reply reply) {
	stops := v.abortsAt(n, abortAfterChunk)
	flush := w.(http.Flusher).Flush
	flush()
	for i, piece := range reply.pieces() {
		if i > 0 && !pause(r, reply.gap()) {
			return
		}
		if _, err := w.Write(piece); err != nil {
			return
		}
		flush()
		if stops && i == v.abort.Chunk {
			break
		}
	}
	if stops || v.abortsAt(n, abortAfterReply) {
		v.reach()
	}
	switch {
	case reply.End == "hang" || stops:
		<-r.Context().Done()
	case reply.End == "drop":
		pause(r, dropDelay)
		panic(http.ErrAbortHandler)
	}
}

// pause reports whether the client is still there after d.
func pause(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

func (v *fakeVendor) reach() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.closed {
		v.closed = true
		close(v.reached)
	}
}

func (v *fakeVendor) sent() []sentRequest {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.requests
}

func (r reply) header() map[string]string {
	headers := map[string]string{"content-type": "text/event-stream"}
	if r.JSON != nil {
		headers["content-type"] = "application/json"
	}
	for name, value := range r.Headers {
		headers[strings.ToLower(name)] = value
	}
	return headers
}

func (r reply) gap() time.Duration {
	if r.GapMs != nil {
		return time.Duration(*r.GapMs) * time.Millisecond
	}
	return 3 * time.Millisecond
}

// pieces returns the pieces in which the body is written.
func (r reply) pieces() [][]byte {
	if r.JSON != nil {
		var b bytes.Buffer
		if err := json.Compact(&b, r.JSON); err != nil {
			panic(err)
		}
		return [][]byte{b.Bytes()}
	}
	var pieces [][]byte
	for _, raw := range r.Chunks {
		pieces = append(pieces, chunk(raw))
	}
	if r.CutAt == nil && r.CutEvery == 0 {
		return pieces
	}
	return cut(bytes.Join(pieces, nil), r.CutAt, r.CutEvery)
}

func chunk(raw json.RawMessage) []byte {
	var binary struct {
		B64 string `json:"b64"`
	}
	if json.Unmarshal(raw, &binary) == nil {
		data, err := base64.StdEncoding.DecodeString(binary.B64)
		if err != nil {
			panic(err)
		}
		return data
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		panic(err)
	}
	return []byte(text)
}

func cut(body []byte, at []int, every int) (pieces [][]byte) {
	if every > 0 {
		for n := every; n < len(body); n += every {
			at = append(at, n)
		}
	}
	start := 0
	for _, end := range append(at, len(body)) {
		pieces = append(pieces, body[start:end])
		start = end
	}
	return pieces
}
