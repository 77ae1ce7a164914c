package client

import "github.com/loopbus/loopbus/schemas"

// Item is one thing that happened in a session: an event of its log, or an update, a live delta that belongs to one.
// One of the two is set. Both are shared with nobody and must not be changed while others read them.
type Item struct {
	Event  *schemas.Event
	Update *schemas.Update
}

// Seq is the sequence of the event, or of the event that the update belongs to. [Session.Watch] with the sequence after
// that of the last event goes on where a loop ended.
func (i Item) Seq() uint64 {
	if i.Update != nil {
		return i.Update.Event
	}
	return i.Event.Seq
}

// Delta returns the text that an update adds to the reply being streamed, without its thinking and its tool calls; ""
// for everything else.
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
