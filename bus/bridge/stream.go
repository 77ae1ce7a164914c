package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	writeTimeout = 10 * time.Second // limit for a client to accept what is written
	keepAlive    = 15 * time.Second // interval of heartbeats on an idle connection
	pieceBytes   = 64 << 10         // what is written at once
	slowest      = 256 << 10        // bytes of an event that a client must accept in a second, after the first ten
)

// EventStream writes server-sent events. A client that reads nothing for ten seconds is disconnected, and one that
// reads an event, after that time, at less than 256 KiB per second: who sends the event holds it in memory. From then
// on every Send fails. Lines end with LF. Its methods are safe for concurrent use.
type EventStream struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
	err     error
	quiet   *time.Timer
	ended   bool
	limit   time.Duration // limit for a client to accept what is written
	begun   time.Time     // when the event in progress began
	sent    int           // bytes of it
	told    bool          // err says what was tried
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
	s.comment("the stream begins")
	return s
}

// Send sends an event. id and name may be empty.
func (s *EventStream) Send(id, name string, data []byte) error {
	return s.SendParts(id, name, func(yield func([]byte, error) bool) { yield(data, nil) })
}

// SendParts is like Send for data in parts. Each is written before the next one is made, so that the whole is never in
// memory. An error of parts ends the stream, because its event remains incomplete.
func (s *EventStream) SendParts(id, name string, parts iter.Seq2[[]byte, error]) error {
	var head []byte
	if id != "" {
		head = fmt.Appendf(head, "id: %s\n", oneLine(id))
	}
	if name != "" {
		head = fmt.Appendf(head, "event: %s\n", oneLine(name))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun, s.sent = time.Now(), 0
	s.write(append(head, "data: "...))
	for part, err := range parts {
		if s.err == nil {
			s.err = err
		}
		if s.data(part); s.err != nil {
			break
		}
	}
	s.write([]byte("\n\n"))
	return s.flush()
}

// data writes a part of an event's data. Each line of it has its own prefix.
func (s *EventStream) data(p []byte) {
	for n := 0; len(p) > 0 && s.err == nil; p = p[n:] {
		n = min(len(p), pieceBytes)
		switch end := bytes.IndexAny(p[:n], "\r\n"); {
		case end != 0:
			if end > 0 {
				n = end
			}
			s.write(p[:n])
		case p[0] == '\n':
			n = 1
			s.write([]byte("\ndata: "))
		default: // CR, which would end the line, too
			n = 1
		}
	}
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
		s.comment("still here")
	}
}

func (s *EventStream) comment(text string) {
	s.begun, s.sent = time.Now(), 0
	s.write([]byte(": " + text + "\n\n"))
	_ = s.flush()
}

// write writes a piece of the event in progress. After an error it writes nothing more.
func (s *EventStream) write(p []byte) {
	if s.err != nil {
		return
	}
	s.quiet.Reset(keepAlive)
	s.sent += len(p)
	until := s.begun.Add(s.limit + time.Duration(s.sent)*time.Second/slowest)
	if one := time.Now().Add(s.limit); one.Before(until) {
		until = one
	}
	// Only writers in tests do not support deadlines.
	if err := s.control.SetWriteDeadline(until); err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.err = err
		return
	}
	_, s.err = s.w.Write(p)
}

// flush sends what was written, and returns the error of all that was.
func (s *EventStream) flush() error {
	if s.err == nil {
		s.err = s.control.Flush()
	}
	if s.err != nil && !s.told {
		s.err, s.told = fmt.Errorf("bridge: write to the client: %w", s.err), true
	}
	return s.err
}

func oneLine(s string) string { return strings.NewReplacer("\r", "", "\n", "").Replace(s) }

// Gone reports whether an error only means that the client has disconnected or the process is stopping.
func Gone(ctx context.Context, err error) bool { return ctx.Err() != nil && errors.Is(err, ctx.Err()) }
