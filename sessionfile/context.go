package sessionfile

import "encoding/json"

// A Model names a model.
type Model struct {
	Provider string `json:"provider,omitempty"`
	ModelID  string `json:"modelId,omitempty"`
}

// A Context is what a model gets at a leaf, with its settings.
type Context struct {
	Messages      []json.RawMessage `json:"messages"`
	ThinkingLevel string            `json:"thinkingLevel"`
	Model         *Model            `json:"model"`
	// IDs are the ids of the entries with the messages.
	IDs []string `json:"-"`
}

// Context returns the context of a leaf. Before the first entry, "", it is empty; an unknown id means the last entry of
// the file.
func (s *Session) Context(leaf string) Context {
	c := Context{Messages: []json.RawMessage{}, ThinkingLevel: "off"}
	if leaf == "" || len(s.order) == 0 {
		return c
	}
	if s.byID[leaf] == nil {
		entries := s.Entries()
		leaf = entries[len(entries)-1].ID
	}
	path := s.Path(leaf)
	last := -1
	for i, e := range path {
		switch {
		case e.Type == TypeThinkingLevel:
			c.ThinkingLevel = e.Text("thinkingLevel")
		case e.Type == TypeModel:
			c.Model = &Model{e.Text("provider"), e.Text("modelId")}
		case e.Role() == "assistant":
			m := e.message()
			provider, _ := m.text("provider")
			model, _ := m.text("model")
			c.Model = &Model{provider, model}
		case e.Type == TypeCompaction:
			last = i
		}
	}
	if last >= 0 {
		c.Messages, c.IDs = append(c.Messages, path[last].Shown()), append(c.IDs, path[last].ID)
		c.show(kept(path[:last], path[last].Text("firstKeptEntryId")))
	}
	c.show(path[last+1:])
	return c
}

// kept returns the entries from the one with this id on; none if it is not on the path.
func kept(path []*Entry, id string) []*Entry {
	for i, e := range path {
		if e.ID == id {
			return path[i:]
		}
	}
	return nil
}

func (c *Context) show(path []*Entry) {
	for _, e := range path {
		if e.Type == TypeCompaction || e.Type == TypeBranchSummary && e.Text("summary") == "" {
			continue
		}
		if m := e.Shown(); m != nil {
			c.Messages, c.IDs = append(c.Messages, m), append(c.IDs, e.ID)
		}
	}
}

// Shown returns the message of an entry as a model gets it: its own, or the one that is made of a custom_message, a
// branch_summary or a compaction. It is nil for entries without a message. The caller must not change it.
func (e *Entry) Shown() json.RawMessage {
	var o object
	take := func(role string, names ...string) json.RawMessage {
		o.add("role", role)
		for _, name := range names {
			o.add(name, e.Get(name))
		}
		if t, ok := e.Time(); ok {
			o.add("timestamp", t.UnixMilli())
		} else {
			o.set("timestamp", json.RawMessage("null"))
		}
		return o.line()
	}
	switch e.Type {
	case TypeMessage:
		return e.Get("message")
	case TypeCustomMessage:
		return take("custom", "customType", "content", "display", "details")
	case TypeBranchSummary:
		return take("branchSummary", "summary", "fromId")
	case TypeCompaction:
		return take("compactionSummary", "summary", "tokensBefore")
	}
	return nil
}
