package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	writeTimeout = 10 * time.Second // for a client to take what is written
	keepAlive    = 15 * time.Second // between two signs that the connection lives
)

// EventStream writes server-sent events. A client that reads nothing for ten seconds is disconnected: every Send then
// fails. Lines end with LF. Its methods may be called concurrently.
type EventStream struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
	err     error
	quiet   *time.Timer
	ended   bool
	limit   time.Duration // for a client to take what is written
}

// NewEventStream answers a request with a stream, and keeps its connection alive with comments until [EventStream.End].
func NewEventStream(w http.ResponseWriter) *EventStream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx passes each event on at once
	s := &EventStream{w: w, control: http.NewResponseController(w), limit: writeTimeout}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet = time.AfterFunc(keepAlive, s.heartbeat)
	w.WriteHeader(http.StatusOK)
	s.write([]byte(": the stream begins\n\n"))
	return s
}

// Send sends an event. id and name may be empty.
func (s *EventStream) Send(id, name string, data []byte) error {
	var b bytes.Buffer
	if id != "" {
		fmt.Fprintf(&b, "id: %s\n", oneLine(id))
	}
	if name != "" {
		fmt.Fprintf(&b, "event: %s\n", oneLine(name))
	}
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		fmt.Fprintf(&b, "data: %s\n", bytes.ReplaceAll(line, []byte("\r"), nil))
	}
	b.WriteByte('\n')
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(b.Bytes())
}

// End stops keeping the connection alive. Nothing may be sent after it.
func (s *EventStream) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.quiet.Stop()
}

func (s *EventStream) heartbeat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		_ = s.write([]byte(": still here\n\n"))
	}
}

// write writes and flushes; after an error nothing is written any more.
func (s *EventStream) write(p []byte) error {
	if s.err != nil {
		return s.err
	}
	s.quiet.Reset(keepAlive)
	// Writers that know no deadline are those of tests.
	err := s.control.SetWriteDeadline(time.Now().Add(s.limit))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.err = err
	}
	if _, err := s.w.Write(p); err != nil && s.err == nil {
		s.err = err
	}
	if err := s.control.Flush(); err != nil && s.err == nil {
		s.err = err
	}
	if s.err != nil {
		s.err = fmt.Errorf("bridge: the client is gone: %w", s.err)
	}
	return s.err
}

func oneLine(s string) string { return strings.NewReplacer("\r", "", "\n", "").Replace(s) }

// Gone reports whether an error only says that the client has left, or that we stop.
func Gone(ctx context.Context, err error) bool { return ctx.Err() != nil && errors.Is(err, ctx.Err()) }
