package main

import (
	"slices"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// liveReply is the reply being streamed. What was printed of it is a prefix of the final reply; if the reply turns
// out to differ, it is printed again.
type liveReply struct {
	id      string // of the message, "" if none is open
	seq     uint64 // of its message_start
	heading string
	updates uint64 // updates seen without a gap
	content []schemas.Content
	printed string
	midLine bool // the last output belongs to this reply, and its line may continue
	over    bool // print no more before the end: an update is missing, or something else was printed
}

// begin opens a reply. Other messages are printed whole.
func (t *transcript) begin(e schemas.Event, d *schemas.MessageStart) {
	if d.Role == schemas.RoleAssistant {
		t.live = liveReply{id: d.MessageID, seq: e.Seq, heading: t.replyHeading(e.Seq, d)}
	}
}

// update prints more of the reply being streamed. Updates arrive after the event that they belong to.
func (t *transcript) update(u schemas.Update) error {
	l := &t.live
	d, ok := u.Data.(*schemas.MessageUpdate)
	if !ok || l.id == "" || u.Event != l.seq || l.over {
		return nil
	}
	if u.N != l.updates+1 {
		l.over = true
		return nil
	}
	l.updates = u.N
	for _, e := range d.AssistantMessageEvents {
		l.add(e)
	}
	return t.grow()
}

// add appends a piece of the reply.
func (l *liveReply) add(e schemas.StreamEvent) {
	for e.ContentIndex >= len(l.content) && e.ContentIndex < len(l.content)+16 {
		l.content = append(l.content, nil)
	}
	if e.ContentIndex < 0 || e.ContentIndex >= len(l.content) {
		return
	}
	block := &l.content[e.ContentIndex]
	switch e.Type {
	case schemas.StreamTextStart:
		*block = schemas.Text{}
	case schemas.StreamThinkingStart:
		*block = schemas.Thinking{}
	case schemas.StreamTextDelta:
		old, _ := (*block).(schemas.Text)
		*block = schemas.Text{Text: old.Text + e.Delta}
	case schemas.StreamThinkingDelta:
		old, _ := (*block).(schemas.Thinking)
		*block = schemas.Thinking{Thinking: old.Thinking + e.Delta}
	case schemas.StreamToolCallEnd:
		*block = *e.ToolCall
	}
}

// grow prints what was added to the open reply.
func (t *transcript) grow() error {
	l := &t.live
	known := len(l.content)
	if i := slices.Index(l.content, nil); i >= 0 {
		known = i // a block is still missing before those that follow
	}
	if known == 0 {
		return nil
	}
	whole := l.heading + t.contents(l.content[:known-1])
	switch c := l.content[known-1].(type) {
	case schemas.Text:
		whole += textBlock(strings.TrimRight(c.Text, "\r\n"))
	case schemas.Thinking:
		whole += t.thinkingBlock(strings.TrimRight(c.Thinking, "\r\n"))
	default:
		whole += t.content(c)
	}
	more, ok := strings.CutPrefix(whole, l.printed)
	if !ok {
		l.over = true
		return nil
	}
	l.printed, l.midLine = whole, true
	return t.write(more)
}

// end prints a message, or the part of it that was not printed yet.
func (t *transcript) end(id, block string) error {
	l := &t.live
	if l.id != id || id == "" {
		return t.print(block)
	}
	more, ok := strings.CutPrefix(block, l.printed)
	if ok && l.midLine {
		l.midLine = false
		block = more
	}
	err := t.print(block)
	*l = liveReply{}
	return err
}

// interrupt ends the line of the open reply before something else is printed. The reply is printed whole when it
// ends.
func (t *transcript) interrupt() error {
	if !t.live.midLine {
		return nil
	}
	t.live.midLine, t.live.over = false, true
	return t.w.WriteByte('\n')
}
