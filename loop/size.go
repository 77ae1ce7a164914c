package loop

import (
	"fmt"

	"github.com/loopbus/loopbus/schemas"
)

// contextBytes is the size of the context of the run under way, or of the next one, with what is about to enter it. It
// is compared with [MaxContextBytes].
func (s *State) contextBytes() int { return s.contextSize(schemas.Messages.Size) }

// contextJSON is contextBytes as JSON. A context that is far from the limit is not counted in this way, which takes
// longer.
func (s *State) contextJSON() int {
	const longest = 6 // of the escapes of a byte
	if n := s.contextBytes(); longest*n <= MaxContextBytes {
		return n
	}
	return s.contextSize(schemas.Messages.JSONSize)
}

func (s *State) contextSize(of func(schemas.Messages) int) (n int) {
	entries := s.Messages
	if s.Run != nil && s.Run.Detached {
		entries = s.Run.Context
	}
	for _, e := range entries {
		n += of(schemas.Messages{e.Message.Message})
	}
	if s.Run != nil {
		for i, in := range s.Run.Inject {
			if i == 0 {
				in.Messages = in.Messages[min(len(s.Run.Injected), len(in.Messages)):] // the others are in the context
			}
			n += of(in.Messages)
		}
	}
	return n + of(s.results())
}

// results returns the results of the turn's calls that are not in the transcript yet.
func (s *State) results() (list schemas.Messages) {
	if s.Run == nil || s.Run.Turn == nil {
		return nil
	}
	for _, c := range s.Run.Turn.Calls {
		if c.End != nil && c.MessageID == "" {
			list = append(list, messageOf(c.End.Result))
		}
	}
	return list
}

// messageOf returns a result as its size counts in a context.
func messageOf(r schemas.ToolResult) schemas.Message {
	return &schemas.ToolResultMessage{Content: r.Content, Details: r.Details}
}

// TooLarge returns why the context has no room for the result of a call, "" if it has.
func (s *State) TooLarge(r schemas.ToolResult) string {
	if has, size := s.contextBytes(), (schemas.Messages{messageOf(r)}).Size(); has+size > MaxContextBytes {
		return fmt.Sprintf("The result of %d bytes is left out: the context has %d, and at most %d", size, has,
			MaxContextBytes)
	}
	return ""
}

// partBytes is an estimate of what a message, an input or a tool takes besides its texts.
const partBytes = 256

// callBytes is the same for a call of the turn under way, with its decision, its approval and what the driver knows of
// it. Measured with 256 calls that wait for approval: 3.5 KB each.
const callBytes = 3 << 10

// Bytes estimates the memory of the state: its context, its settings, its tools, the calls under way and the inputs
// that wait. It counts each text that may be large.
func (s *State) Bytes() (n int) {
	n = len(s.Config.SystemPrompt) + textBytes(s.Settings.SystemPrompt) + len(s.Name) + len(s.ErrorMessage)
	if s.Origin != nil {
		n += len(s.Origin.Text)
	}
	if s.Parent != nil {
		n += len(s.Parent.Text)
	}
	if s.LastEnd != nil {
		n += len(s.LastEnd.ErrorMessage)
	}
	for _, e := range s.Messages {
		if n += (schemas.Messages{e.Message.Message}).Size(); !isOutline(e.Message.Message) {
			n += partBytes
		}
	}
	for _, d := range s.Config.Tools {
		n += partBytes + len(d.Description) + len(d.Parameters)
	}
	queues := [][]Input{s.Prompts, s.Steering, s.FollowUp}
	if r := s.Run; r != nil {
		queues = append(queues, r.Inject)
		for _, e := range r.Context { // most of its messages may be those of the session
			n += schemas.Messages{e.Message.Message}.Size()
		}
		n += s.results().Size() + r.Turn.bytes() + len(r.Failure)
		if r.Last != nil {
			n += len(r.Last.Error)
		}
	}
	n += s.Navigating.bytes() + s.Compacting.bytes()
	for _, o := range s.Owed {
		n += partBytes + len(o.Data) + len(o.Text)
		if r := o.Resolved; r != nil {
			n += len(r.Args) + len(r.Reason)
		}
	}
	for _, queue := range queues {
		for _, in := range queue {
			n += partBytes + in.Messages.Size() + decisionBytes(in.Begin)
		}
	}
	return n
}

func textBytes(text *string) int {
	if text == nil {
		return 0
	}
	return len(*text)
}

// decisionBytes estimates what a decision of services takes, 0 for none.
func decisionBytes(d *schemas.HookDecision) (n int) {
	if d == nil {
		return 0
	}
	n = partBytes + d.Messages.Size() + len(d.Args) + len(d.Reason) + len(d.Summary) + textBytes(d.SystemPrompt) +
		textBytes(d.CustomInstructions) + textBytes(d.Label)
	if c := d.Compaction; c != nil {
		n += len(c.Summary) + len(c.Details)
	}
	for _, f := range d.Failures {
		n += len(f.Error)
	}
	return n
}

func (n *Navigation) bytes() int {
	if n == nil {
		return 0
	}
	bytes := len(n.Navigate.CustomInstructions) + len(n.Navigate.Label) + n.Summing.bytes()
	if m := n.Move; m != nil {
		bytes += m.Copied().Size() + len(m.Text)
		if m.Summary != nil {
			bytes += len(m.Summary.Summary)
		}
	}
	return bytes
}

func (c *Compacting) bytes() int {
	if c == nil {
		return 0
	}
	return len(c.Start.CustomInstructions) + c.Summing.bytes()
}

func (sum *Summing) bytes() int {
	n := decisionBytes(sum.Decision) + len(sum.Failed)
	for _, m := range sum.Good {
		n += schemas.Messages{m.Message}.Size()
	}
	return n
}

// QueuedBytes returns the bytes of the inputs that wait, which are compared with [MaxQueuedBytes].
func (s *State) QueuedBytes() (n int) {
	for _, queue := range [][]Input{s.Prompts, s.Steering, s.FollowUp} {
		for _, in := range queue {
			n += in.Messages.Size()
		}
	}
	return n
}

// MaxDecidedArgs is how many bytes of arguments the services of before_tool_call may give to the calls of a turn: as
// many as a model can in one reply.
const MaxDecidedArgs = 16 << 20

// DecidedArgs returns the bytes of arguments that services have given to the calls of the turn under way.
func (s *State) DecidedArgs() (n int) {
	if s.Run == nil || s.Run.Turn == nil {
		return 0
	}
	for _, c := range s.Run.Turn.Calls {
		if c.Decision != nil {
			n += len(c.Decision.Args)
		}
	}
	return n
}

// bytes estimates what a turn takes besides its messages. A state that was loaded from a snapshot has the reply and its
// arguments once more, and the driver has those that it has prepared.
func (t *Turn) bytes() (n int) {
	if t == nil {
		return 0
	}
	if t.Reply != nil {
		n = schemas.Messages{t.Reply}.Size()
	}
	for _, c := range t.Calls {
		n += callBytes + len(c.ToolCall.Arguments)
		n += decisionBytes(c.Decision)
		if a := c.Approval; a != nil {
			n += len(a.Args)
			if a.Answer != nil {
				n += len(a.Answer.Args) + len(a.Answer.Reason)
			}
		}
	}
	return n
}
