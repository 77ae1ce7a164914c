package bridge_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/bus/bridge"
)

// link is a client that accepts so many bytes per second.
type link struct {
	http.ResponseWriter
	rate     int
	until    time.Time
	received bytes.Buffer
}

func (*link) Header() http.Header                   { return http.Header{} }
func (*link) WriteHeader(int)                       {}
func (*link) Flush()                                {}
func (l *link) SetWriteDeadline(at time.Time) error { l.until = at; return nil }

// Write implements [http.ResponseWriter].
func (l *link) Write(p []byte) (int, error) {
	takes, left := time.Duration(len(p))*time.Second/time.Duration(l.rate), time.Until(l.until)
	if time.Sleep(min(takes, left)); takes > left {
		return 0, os.ErrDeadlineExceeded
	}
	return l.received.Write(p)
}

// A client has the more time for an event the larger it is, but none may read it as slowly as it likes.
func TestEventsTakeTheirTime(t *testing.T) {
	t.Parallel()
	const size = 32 << 20
	for rate, want := range map[int]error{1 << 20: nil, 300 << 10: nil, 200 << 10: os.ErrDeadlineExceeded,
		8 << 10: os.ErrDeadlineExceeded, 1: os.ErrDeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			l := &link{rate: 1 << 30}
			s := bridge.NewEventStream(l)
			defer s.End()
			l.rate = rate
			begun := time.Now()
			err := s.Send("", "", bytes.Repeat([]byte("x"), size))
			if took := time.Since(begun); !errors.Is(err, want) || took > 3*time.Minute {
				t.Errorf("at %d bytes per second: %v after %s, want %v", rate, err, took, want)
			}
		})
	}
}

// The data of an event has a prefix before each line, in whatever parts it comes.
func TestEventsInParts(t *testing.T) {
	t.Parallel()
	const want = ": the stream begins\n\nid: 1\nevent: e\ndata: ab\ndata: \ndata: cd\n\ndata: ab\ndata: \ndata: cd\n\n"
	l := &link{rate: 1 << 30}
	s := bridge.NewEventStream(l)
	defer s.End()
	err := s.Send("1", "e", []byte("ab\r\n\ncd"))
	if err == nil {
		err = s.SendParts("", "", func(yield func([]byte, error) bool) {
			for _, part := range []string{"a", "b\r", "\n", "", "\nc", "d"} {
				if !yield([]byte(part), nil) {
					return
				}
			}
		})
	}
	if got := l.received.String(); err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	broken := errors.New("cannot be encoded")
	err = s.SendParts("", "", func(yield func([]byte, error) bool) {
		if yield([]byte("a"), nil) && yield(nil, broken) {
			t.Error("parts are asked for after an error")
		}
	})
	if !errors.Is(err, broken) || !errors.Is(s.Send("", "", nil), broken) ||
		strings.HasSuffix(l.received.String(), "a\n\n") {
		t.Errorf("an event that is not complete: %v, %q", err, l.received.String())
	}
}
