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
	writeTimeout = 10 * time.Second // limit for a client to accept what is written
	keepAlive    = 15 * time.Second // interval of heartbeats on an idle connection
)

// EventStream writes server-sent events. A client that reads nothing for ten seconds is disconnected; from then on
// every Send fails. Lines end with LF. Its methods are safe for concurrent use.
type EventStream struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
	err     error
	quiet   *time.Timer
	ended   bool
	limit   time.Duration // limit for a client to accept what is written
}

// NewEventStream answers a request with a stream, and sends comments as heartbeats until [EventStream.End].
func NewEventStream(w http.ResponseWriter) *EventStream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // makes nginx forward each event at once
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

// End stops the heartbeats. Nothing may be sent after it.
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

// write writes and flushes. After an error it writes nothing more.
func (s *EventStream) write(p []byte) error {
	if s.err != nil {
		return s.err
	}
	s.quiet.Reset(keepAlive)
	// Only writers in tests do not support deadlines.
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
		s.err = fmt.Errorf("bridge: write to the client: %w", s.err)
	}
	return s.err
}

func oneLine(s string) string { return strings.NewReplacer("\r", "", "\n", "").Replace(s) }

// Gone reports whether an error only means that the client has disconnected or the process is stopping.
func Gone(ctx context.Context, err error) bool { return ctx.Err() != nil && errors.Is(err, ctx.Err()) }
