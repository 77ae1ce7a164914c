// Package replyroom has the room in memory for the large replies that a process stores at one time.
package replyroom

import (
	"context"
	"runtime/debug"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/turns"
)

const (
	// room is the memory for the replies of each class together.
	room = 128 << 20
	// copies is how often a reply's JSON is in memory while the reply is stored: its event, what encoded that, the
	// payload that is sent, and the garbage of all of them.
	copies = 6
	// small replies do not wait; most have a hundredth of that.
	small = 256 << 10
	// large replies have a room of their own, so that those below do not wait behind them.
	large = 1 << 20
	// collected is the room whose garbage is collected before the next reply gets it.
	collected = room / 4
)

// rooms has bytes by whether the replies are large.
var rooms = turns.New[bool](room)

// Of returns the room that storing a reply takes; 0 for a small one.
func Of(reply schemas.Message) int {
	if n := size(reply); n > small {
		return copies * n
	}
	return 0
}

// Wait waits for room. The caller releases it once the reply is stored, and waits for nothing else in between. The
// error is that of ctx.
func Wait(ctx context.Context, room int) (release func(), err error) {
	leave, err := rooms.Wait(ctx, room > copies*large, room)
	if err != nil || room < collected {
		return leave, err
	}
	return func() {
		defer leave()
		debug.FreeOSMemory()
	}, nil
}

// size returns about how many bytes the JSON of a reply has.
func size(reply schemas.Message) (n int) {
	m, ok := reply.(*schemas.AssistantMessage)
	if !ok {
		return 0
	}
	for _, c := range m.Content {
		switch c := c.(type) {
		case schemas.Text:
			n += quoted(c.Text) + quoted(c.TextSignature)
		case schemas.Thinking:
			n += quoted(c.Thinking) + quoted(c.ThinkingSignature)
		case schemas.ToolCall:
			n += len(c.Arguments) + quoted(c.ID) + quoted(c.Name) + quoted(c.ThoughtSignature)
		}
	}
	return n
}

// quoted returns the length of a text as JSON, in which a control character takes up to six bytes.
func quoted(s string) int {
	n := len(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t':
			n++
		case c < ' ':
			n += 5
		}
	}
	return n
}
