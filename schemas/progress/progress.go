// Package progress has the rule by which a reply that goes on without progress ends (decision 125). The reader of a
// vendor's stream and the client of a model behind the bus share it.
package progress

import (
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Patience is the number of idle limits for which events may come that do not advance the reply.
const Patience = 12

// Made reports whether an event advances the reply: it begins a block, or has words or arguments.
func Made(e schemas.StreamEvent) bool {
	switch e.Type {
	case schemas.StreamTextStart, schemas.StreamThinkingStart, schemas.StreamToolCallStart:
		return true
	}
	return e.Delta != ""
}

// A Stall measures for how long a reply has made no progress. The zero value is a reply that advances.
type Stall struct {
	since  time.Time // zero if the reply advances
	paused time.Time // zero unless it is paused
}

// Begin records that the vendor has sent something without progress.
func (s *Stall) Begin() {
	if s.since.IsZero() {
		s.since = time.Now()
	}
}

// End records progress.
func (s *Stall) End() { *s = Stall{} }

// Pause stops the measurement until Resume: the time of the reply's reader is not the vendor's.
func (s *Stall) Pause() {
	if !s.since.IsZero() {
		s.paused = time.Now()
	}
}

// Resume continues the measurement.
func (s *Stall) Resume() {
	if !s.paused.IsZero() {
		s.since, s.paused = s.since.Add(time.Since(s.paused)), time.Time{}
	}
}

// Left returns how much of the limit is left, all of it while the reply advances.
func (s *Stall) Left(limit time.Duration) time.Duration {
	if s.since.IsZero() {
		return limit
	}
	return limit - time.Since(s.since)
}
