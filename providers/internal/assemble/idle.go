package assemble

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/loopbus/loopbus/providers"
)

// How long more is awaited after the vendor has told why the reply ended. Without usage a budget would not count the
// reply, and some routers send it late.
const (
	usageTime = 10 * time.Second
	endTime   = time.Second
)

var errIdle = errors.New("idle")

// Alive restarts the idle timer. An API package calls it for a vendor event that may send no event of the reply, and
// not for a keep-alive of the connection. Events that do not advance the reply are accepted for
// [providers.IdlePatience] times the idle limit.
func (s *Stream) Alive() {
	s.grew = false
	switch {
	case s.lingering > 0:
		return
	case s.progressed:
		s.progressed = false
		s.stall.End()
	default:
		s.stall.Begin()
	}
	s.pause()
	s.resume()
}

// Linger records that the vendor has told why the reply ended. Some servers keep the response open then, so the body
// ends for its reader when nothing comes for a moment: [usageTime], or [endTime] once there is usage. It is [usageTime]
// too if the reason came with content, because some servers send a reason with every chunk. If the reply goes on all
// the same, only the idle limit counts from then on.
func (s *Stream) Linger() {
	wait := usageTime
	if s.reply.Usage.TotalTokens > 0 && !s.grew {
		wait = endTime
	}
	if s.idleLimit > 0 {
		wait = min(wait, s.idleLimit)
	}
	if s.hasty || s.lingering > 0 && s.lingering <= wait {
		return // a repeated reason does not extend the time
	}
	s.pause()
	s.lingering, s.progressed = wait, false
	s.stall.End()
	s.idle = time.AfterFunc(wait, func() { s.cancel(io.EOF) }) // the cause is what the body's reader gets
}

// idleText returns the error text of a stream that received nothing, or nothing that advanced the reply, for too long.
func (s *Stream) idleText() string {
	if most := s.patience(); s.stall.Left(most) <= 0 {
		return fmt.Sprintf("stream timed out: nothing but heartbeats for %s", most)
	}
	return fmt.Sprintf("stream timed out: nothing for %s", s.idleLimit)
}

// patience returns how long the vendor may send events that do not advance the reply.
func (s *Stream) patience() time.Duration { return providers.IdlePatience * s.idleLimit }

// pause stops the idle timer.
func (s *Stream) pause() {
	if s.idle != nil {
		s.idle.Stop()
	}
}

// resume starts the idle timer.
func (s *Stream) resume() {
	if s.lingering > 0 && s.progressed {
		s.lingering, s.idle, s.hasty = 0, nil, true
	}
	wait := s.idleLimit
	if s.idleLimit > 0 && !s.progressed {
		wait = max(0, min(wait, s.stall.Left(s.patience())))
	}
	switch {
	case s.lingering > 0:
		s.idle.Reset(s.lingering)
	case s.idleLimit < 0:
	case s.idle == nil:
		s.idle = time.AfterFunc(wait, func() { s.cancel(errIdle) })
	default:
		s.idle.Reset(wait)
	}
}
