package models

import (
	"cmp"
	"fmt"
	"sync"

	"github.com/loopbus/loopbus/schemas"
)

// Bounds are what one reply may come to: whoever serves models says what they say, and must not fill a runner's memory
// or have it execute calls without end. A reply beyond one ends as an error with the code too_large. 0 is the default,
// which is that of replies of vendors.
type Bounds struct {
	Reply     int // bytes that a reply says, thinks and calls, an event of its stream counting one at least; 16 MiB
	Arguments int // bytes of the arguments of a call; 4 MiB
	Calls     int // in a reply; 256
}

const (
	maxReply     = 16 << 20
	maxArguments = 4 << 20
	maxCalls     = 256

	// maxFrameValues is how many JSON values a message to the caller may have: those of the arguments of all calls, and
	// of the blocks around them.
	maxFrameValues = 2 * schemas.MaxReplyValues
)

func (b Bounds) orDefaults() Bounds {
	return Bounds{cmp.Or(b.Reply, maxReply), cmp.Or(b.Arguments, maxArguments), cmp.Or(b.Calls, maxCalls)}
}

// meter holds a reply against bounds while it comes.
type meter struct {
	bounds Bounds
	size   int // of the deltas so far, which say everything once before the message says it again
	blocks int // of what the beginnings and ends of blocks have said, which is everything once more
}

// event counts the next event. An error says which bound it is beyond.
func (m *meter) event(e schemas.StreamEvent) error {
	m.size += 1 + len(e.Delta)
	m.blocks += len(e.Content)
	if c := e.ToolCall; c != nil {
		m.blocks += len(c.ID) + len(c.Name) + len(c.Arguments) + len(c.ThoughtSignature)
		if len(c.Arguments) > m.bounds.Arguments {
			return m.bounds.tooManyArguments()
		}
	}
	switch {
	case m.size > m.bounds.Reply || m.blocks > 2*m.bounds.Reply: // a call's name is in its beginning and in its end
		return m.bounds.tooLarge()
	case e.Message != nil:
		return m.bounds.message(e.Message)
	}
	return nil
}

func (b Bounds) message(m *schemas.AssistantMessage) error {
	calls := 0
	for _, c := range m.Content {
		if call, is := c.(schemas.ToolCall); is {
			if calls++; len(call.Arguments) > b.Arguments {
				return b.tooManyArguments()
			}
		}
	}
	switch {
	case (schemas.Messages{m}).Size() > b.Reply:
		return b.tooLarge()
	case calls > b.Calls:
		return schemas.NewFailure(schemas.FailureTooLarge, fmt.Sprintf("the reply has more than %d tool calls", b.Calls))
	}
	return nil
}

func (b Bounds) tooLarge() error {
	return schemas.NewFailure(schemas.FailureTooLarge, fmt.Sprintf("the reply has more than %d bytes", b.Reply))
}

func (b Bounds) tooManyArguments() error {
	return schemas.NewFailure(schemas.FailureTooLarge,
		fmt.Sprintf("the arguments of a tool call have more than %d bytes", b.Arguments))
}

// total bounds the bytes of all requests that a server has, those of which parts are still to come among them. It may
// be used concurrently.
type total struct {
	limit int

	mu    sync.Mutex
	bytes int
}

// add counts n bytes, unless that were too many.
func (t *total) add(n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bytes+n > t.limit {
		return false
	}
	t.bytes += n
	return true
}

func (t *total) remove(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes -= n
}
