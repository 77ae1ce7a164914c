package compare

import (
	"iter"
	"slices"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// A Conversation contains the messages of a session and its totals.
type Conversation struct {
	Session string
	Events  uint64
	// Parent is the session that it was branched from.
	Parent *schemas.SessionParent
	Items  []Item
	Totals Totals

	children []string // sessions of its sub-agents
}

// An Item is a message of a conversation. Seq is the sequence of the event that has added it, Start that of the event
// that has announced it, or Seq if there is none. Announced is the announcing event, if any. Taken are the totals of
// the session up to this item.
type Item struct {
	ID        string
	Seq       uint64
	Start     uint64
	Announced *schemas.MessageStart
	Message   schemas.Message
	Taken     Totals

	compaction bool
	kept       string // the first entry that a compaction keeps
}

// Totals are the totals of a session: turns that have a reply, tool calls, failed tool calls, tokens and cost. Ended is
// why the latest run has ended, "" during a run or if there was none. Models are the models that have replied, in the
// order of their first replies.
type Totals struct {
	Models      []string                  `json:"models"`
	Turns       int                       `json:"turns"`
	Calls       int                       `json:"calls"`
	FailedCalls int                       `json:"failedCalls"`
	Usage       schemas.Usage             `json:"usage"`
	Ended       schemas.TerminationReason `json:"ended,omitempty"`
	Error       string                    `json:"error,omitempty"`
}

// Read reads a session's log. It keeps the messages of the whole log in memory until it knows the path to the leaf.
func Read(session string, events iter.Seq2[schemas.Event, error]) (*Conversation, error) {
	r := &reader{c: Conversation{Session: session}, items: map[string]*entry{}, started: map[string]Item{}}
	for e, err := range events {
		if err == nil {
			err = r.add(e)
		}
		if err != nil {
			return nil, err
		}
	}
	for one := r.items[r.tree.Leaf]; one != nil; one = r.items[one.parent] {
		delete(r.items, one.ID) // a log that no runner wrote may repeat an id and contain a cycle
		if one.Message != nil {
			r.c.Items = append(r.c.Items, one.Item)
		}
	}
	slices.Reverse(r.c.Items)
	return &r.c, nil
}

type entry struct {
	Item
	parent string
}

type reader struct {
	c       Conversation
	state   loop.State
	tree    loop.Tree
	items   map[string]*entry // of the tree, by id
	started map[string]Item   // announced messages
}

func (r *reader) add(e schemas.Event) error {
	if err := r.state.Apply(e); err != nil {
		return err
	}
	r.c.Events = e.Seq
	kept := ""
	switch d := e.Data.(type) {
	case *schemas.SessionBranched:
		r.c.Parent = &schemas.SessionParent{Session: d.Session, Seq: d.Seq}
	case *schemas.MessageStart:
		r.started[d.MessageID] = Item{Start: e.Seq, Announced: d}
	case *schemas.SubagentStart:
		r.c.children = append(r.c.children, d.Session)
	case *schemas.CompactionEnd:
		kept = d.FirstKeptEntryID
	}
	r.count(e)
	for _, n := range r.tree.Apply(e) {
		one := &entry{parent: n.Parent, Item: Item{ID: n.ID, Seq: e.Seq, Start: e.Seq, Message: n.Message,
			Taken: r.c.Totals, compaction: n.Type == schemas.EntryCompaction, kept: kept}}
		if s, ok := r.started[n.ID]; ok {
			one.Start, one.Announced = s.Start, s.Announced
			delete(r.started, n.ID)
		}
		r.items[n.ID] = one
	}
	return nil
}

// count adds an event to the totals.
func (r *reader) count(e schemas.Event) {
	t := &r.c.Totals
	t.Usage = r.state.Usage
	switch d := e.Data.(type) {
	case *schemas.AgentStart:
		t.Ended, t.Error = "", ""
	case *schemas.ToolExecutionEnd:
		if t.Calls++; d.IsError {
			t.FailedCalls++
		}
	case *schemas.MessageEnd:
		if m, ok := d.Message.Message.(*schemas.AssistantMessage); ok && !d.Interrupted {
			t.Turns++ // each has one reply
			t.Models = with(t.Models, m, r.started[d.MessageID].Announced)
		}
	case *schemas.AgentEnd:
		t.Ended, t.Error = d.TerminationReason, d.ErrorMessage
	}
}

// Since returns the totals of a conversation from the item with an index on: at index 0 all of them, at the end none.
func (c *Conversation) Since(item int) Totals {
	t := c.Totals
	if item == 0 {
		return t
	}
	last := c.Items[item-1].Taken
	t.Turns -= last.Turns
	t.Calls -= last.Calls
	t.FailedCalls -= last.FailedCalls
	t.Usage = less(t.Usage, last.Usage)
	t.Models = c.modelsSince(item)
	return t
}

func (c *Conversation) modelsSince(item int) (models []string) {
	for _, i := range c.Items[item:] {
		if m, ok := i.Message.(*schemas.AssistantMessage); ok {
			models = with(models, m, i.Announced)
		}
	}
	return models
}

// with adds the model of a reply, from the reply itself or from the event that has announced it.
func with(models []string, m *schemas.AssistantMessage, start *schemas.MessageStart) []string {
	ref := schemas.ModelRef{Provider: m.Provider, ID: m.Model}
	if ref.ID == "" && start != nil {
		ref = schemas.ModelRef{Provider: start.Provider, ID: start.Model}
	}
	if ref.ID == "" || slices.Contains(models, ref.String()) {
		return models
	}
	return append(slices.Clip(models), ref.String())
}

func less(u, v schemas.Usage) schemas.Usage {
	u.Input -= v.Input
	u.Output -= v.Output
	u.CacheRead -= v.CacheRead
	u.CacheWrite -= v.CacheWrite
	u.TotalTokens -= v.TotalTokens
	u.Cost.Input -= v.Cost.Input
	u.Cost.Output -= v.Cost.Output
	u.Cost.CacheRead -= v.Cost.CacheRead
	u.Cost.CacheWrite -= v.Cost.CacheWrite
	u.Cost.Total -= v.Cost.Total
	return u
}
