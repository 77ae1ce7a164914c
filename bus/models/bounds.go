package models

import (
	"cmp"
	"fmt"

	"github.com/loopbus/loopbus/schemas"
)

// Bounds limits a reply: a server of models decides what a reply contains, and must not fill the memory of a runner or
// make it execute an endless number of calls. A reply that exceeds a limit ends as an error with the code too_large. 0
// means the default, which is that for the replies of vendors.
type Bounds struct {
	// Reply is the bytes of JSON of text, thinking and tool calls, plus one for each event of the stream; default 16 MiB.
	Reply     int
	Arguments int // bytes of the arguments of one tool call; default 4 MiB
	Calls     int // tool calls of a reply; default 256
	// Answer is the bytes of all messages of the answer, with their headers and whatever they say: a message without an
	// event, such as a heartbeat, counts too. Default 256 MiB.
	Answer int
}

const (
	maxReply     = 16 << 20
	maxArguments = 4 << 20
	maxCalls     = 256
	maxAnswer    = 256 << 20

	// maxFrameValues is how many JSON values a frame may have: those of the arguments of all tool calls, and as many for
	// the blocks around them.
	maxFrameValues = 2 * schemas.MaxReplyValues
)

func (b Bounds) orDefaults() Bounds {
	return Bounds{cmp.Or(b.Reply, maxReply), cmp.Or(b.Arguments, maxArguments), cmp.Or(b.Calls, maxCalls),
		cmp.Or(b.Answer, maxAnswer)}
}

// meter checks a reply against its bounds while the events arrive.
type meter struct {
	bounds Bounds
	size   int // bytes of JSON of the deltas so far, plus one per event; all deltas together are the reply
	blocks int // bytes in the events that begin and end blocks; their content repeats the reply
	answer int // bytes of the messages
}

// message counts the next message, of n bytes. It returns an error if the answer exceeds its limit.
func (m *meter) message(n int) error {
	if m.answer += n; m.answer > m.bounds.Answer {
		return schemas.NewFailure(schemas.FailureTooLarge,
			fmt.Sprintf("the messages of the reply have more than %d bytes", m.bounds.Answer))
	}
	return nil
}

// add counts the next event. It returns an error that names the limit if the reply exceeds one.
func (m *meter) add(e schemas.StreamEvent) error {
	m.size += 1 + schemas.QuotedSize(e.Delta)
	m.blocks += schemas.QuotedSize(e.Content)
	if c := e.ToolCall; c != nil {
		m.blocks += len(c.ID) + len(c.Name) + len(c.Arguments) + len(c.ThoughtSignature)
		if len(c.Arguments) > m.bounds.Arguments {
			return m.bounds.tooManyArguments()
		}
	}
	switch {
	case m.size > m.bounds.Reply || m.blocks > 2*m.bounds.Reply: // a call is in its start and in its end
		return m.bounds.tooLarge()
	case e.Message != nil:
		return m.bounds.check(e.Message)
	}
	return nil
}

// check returns an error if the message exceeds a limit.
func (b Bounds) check(m *schemas.AssistantMessage) error {
	calls := 0
	for _, c := range m.Content {
		if call, ok := c.(schemas.ToolCall); ok {
			if calls++; len(call.Arguments) > b.Arguments {
				return b.tooManyArguments()
			}
		}
	}
	switch {
	case (schemas.Messages{m}).JSONSize() > b.Reply:
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
