package live

import (
	"sync"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// eventUpdates are the updates of one event.
type eventUpdates struct {
	updates *Updates

	mu       sync.Mutex
	n        uint64 // number of the last update sent
	sent     time.Time
	touched  time.Time
	timer    *time.Timer
	armed    bool
	buffered schemas.Update // without data if nothing is buffered
	events   []schemas.StreamEvent
	tail     []byte // deltas that are to be appended to the last of events
	size     int    // bytes buffered
}

// add buffers an update and sends the buffer if the interval since the last message has passed.
func (e *eventUpdates) add(update schemas.Update) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	e.touched = now
	e.buffer(update)
	due := e.updates.interval - now.Sub(e.sent)
	if due <= 0 || e.size >= e.updates.maxBuffered {
		e.flush(now)
		return
	}
	if !e.armed {
		e.arm(due)
	}
}

func (e *eventUpdates) arm(d time.Duration) {
	e.armed = true
	if e.timer == nil {
		e.timer = time.AfterFunc(d, e.expire)
	} else {
		e.timer.Reset(d)
	}
}

func (e *eventUpdates) expire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.armed = false
	now := time.Now()
	// If an update was sent since the timer was armed, the rest of the interval remains.
	if due := e.updates.interval - now.Sub(e.sent); due > 0 && e.buffered.Data != nil {
		e.arm(due)
		return
	}
	e.flush(now)
}

func (e *eventUpdates) settle() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil {
		e.timer.Stop()
	}
	e.flush(time.Now())
}

func (e *eventUpdates) idleSince(t time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.touched.Before(t) && e.buffered.Data == nil
}

// buffer joins an update with the buffered ones. A tool's partial result replaces the one before; a message's deltas
// are appended.
func (e *eventUpdates) buffer(update schemas.Update) {
	if m, ok := update.Data.(*schemas.MessageUpdate); ok {
		for _, event := range m.AssistantMessageEvents {
			e.join(event)
		}
	}
	e.buffered = update
}

func (e *eventUpdates) join(event schemas.StreamEvent) {
	if e.size += len(event.Delta) + len(event.Content); event.ToolCall != nil {
		e.size += len(event.ToolCall.Arguments)
	}
	if last := len(e.events) - 1; last >= 0 && isDelta(event) && event.Type == e.events[last].Type &&
		event.ContentIndex == e.events[last].ContentIndex {
		e.tail = append(e.tail, event.Delta...)
		return
	}
	e.closeTail()
	e.events = append(e.events, event)
}

// keptTail is how many bytes of buffer an event keeps between its updates: thousands of replies may be under way.
const keptTail = 4 << 10

// closeTail appends the collected deltas to the last event. Collecting them first avoids copying the text once for each
// small delta.
func (e *eventUpdates) closeTail() {
	if len(e.tail) > 0 {
		e.events[len(e.events)-1].Delta += string(e.tail)
		if e.tail = e.tail[:0]; cap(e.tail) > keptTail {
			e.tail = nil
		}
	}
}

func isDelta(e schemas.StreamEvent) bool {
	switch e.Type {
	case schemas.StreamTextDelta, schemas.StreamThinkingDelta, schemas.StreamToolCallDelta:
		return true
	}
	return false
}

// flush sends the buffered updates as one, with mu held, so that numbers are sent in order.
func (e *eventUpdates) flush(now time.Time) {
	if e.buffered.Data == nil {
		return
	}
	update := e.buffered
	if m, ok := update.Data.(*schemas.MessageUpdate); ok {
		e.closeTail()
		update.Data = &schemas.MessageUpdate{MessageID: m.MessageID, AssistantMessageEvents: e.events}
	}
	e.n++
	update.N = e.n
	e.updates.publish(update, e.size)
	clear(e.events)
	e.events, e.size, e.sent, e.buffered = e.events[:0], 0, now, schemas.Update{}
}
