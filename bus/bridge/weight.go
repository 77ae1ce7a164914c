package bridge

import (
	"fmt"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// outlineBytes is an estimate of what an entry of an outlined state takes.
const outlineBytes = 64

// weight is what a follower has in memory, in bytes, with what those who show the items keep of them.
type weight struct {
	state   int // the state when it was counted last; not of an outlined one
	added   int // by events since then
	largest int // the largest message, which is encoded to be shown
	said    int // what was streamed of the reply in progress
	reply   int // the newest reply of the run in progress
	asked   int // arguments of calls that wait for approval
}

// weigh counts an item that was folded.
func (f *Follower) weigh(i client.Item) error {
	if f.Room == nil {
		return nil
	}
	w := &f.weight
	if i.Update != nil {
		if d, ok := i.Update.Data.(*schemas.MessageUpdate); ok {
			for _, e := range d.AssistantMessageEvents {
				w.said += len(e.Delta)
			}
		}
		return f.hold()
	}
	n := contents(i.Event.Data)
	w.added += n
	w.largest = max(w.largest, n)
	switch i.Event.Data.(type) {
	case *schemas.MessageEnd:
		w.said, w.reply = 0, n
	case *schemas.AgentEnd:
		w.said, w.reply = 0, 0
	}
	w.asked = 0
	for _, d := range f.asked {
		w.asked += len(d.Args)
	}
	if !f.Outlined && w.added > w.state/8+freely { // rarely, because it counts all messages
		f.count()
	}
	return f.hold()
}

// contents returns the bytes that the state, or who shows it, keeps of an event.
func contents(data schemas.EventData) (n int) {
	switch d := data.(type) {
	case *schemas.MessageEnd:
		return schemas.Messages{d.Message.Message}.Size()
	case *schemas.ToolExecutionEnd:
		return schemas.Messages{&schemas.ToolResultMessage{Content: d.Result.Content, Details: d.Result.Details}}.Size()
	case *schemas.CommandAccepted:
		return len(d.Data)
	case *schemas.HookDecision:
		return d.Messages.Size()
	case *schemas.TranscriptReplaced:
		return d.Messages.Size()
	case *schemas.SessionBranched:
		return d.Messages.Size()
	case *schemas.Leaf:
		for _, e := range d.Entries {
			n += schemas.Messages{e.Message.Message}.Size()
		}
	}
	return n
}

// count counts the state anew.
func (f *Follower) count() {
	w := &f.weight
	w.state, w.added, w.largest = f.State.Bytes(), 0, 0
	for _, e := range f.State.Messages {
		w.largest = max(w.largest, schemas.Messages{e.Message.Message}.Size())
	}
}

// hold takes room for all that the follower has.
func (f *Follower) hold() error {
	if f.Room == nil {
		return nil
	}
	w := f.weight
	n := w.state + w.added + w.largest
	if f.Outlined {
		n = len(f.State.Messages)*outlineBytes + w.reply
	}
	n += w.said + w.asked
	if err := f.Room.Set(n); err != nil {
		return fmt.Errorf("session %s, some %d bytes: %w", f.Session.ID(), n, err)
	}
	return nil
}
