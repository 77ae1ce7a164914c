package client

import "github.com/loopbus/loopbus/schemas"

// Item is something that happened in a session: either an event of its log, or an update, which is a live delta of an
// event. Exactly one field is set. The caller must not modify what they point to if other goroutines use the same
// item.
type Item struct {
	Event  *schemas.Event
	Update *schemas.Update
}

// Seq returns the sequence of the event, or of the event that the update belongs to. To resume after a loop has
// ended, call [Session.Watch] with the sequence of the last event plus one.
func (i Item) Seq() uint64 {
	if i.Update != nil {
		return i.Update.Event
	}
	return i.Event.Seq
}

// Delta returns the text that an update adds to the reply being streamed, without thinking and tool calls. It returns
// "" for every other item.
func (i Item) Delta() (text string) {
	if i.Update == nil {
		return ""
	}
	if d, ok := i.Update.Data.(*schemas.MessageUpdate); ok {
		for _, e := range d.AssistantMessageEvents {
			if e.Type == schemas.StreamTextDelta {
				text += e.Delta
			}
		}
	}
	return text
}
