package sessionfile

import "encoding/json"

// Summary is what a compaction and a branch_summary have in common. Details is any JSON or nil; FromHook is nil if it
// is left out.
type Summary struct {
	Text     string
	Details  json.RawMessage
	FromHook *bool
}

// append adds an entry below the leaf, makes it the leaf and writes it. Base members come first, except for custom
// kinds, where pi has them last. An entry that cannot be written is not in the session.
func (s *Session) append(kind Type, fill func(*object)) (string, error) {
	base := newEntry(kind, newID(func(id string) bool { return s.byID[id] != nil }), s.leaf, Stamp(s.now()))
	e := base
	if kind == TypeCustom || kind == TypeCustomMessage {
		e = &Entry{}
		e.members.add("type", kind)
		fill(&e.members)
		for _, m := range base.members[1:] {
			e.members.set(m.name, m.value)
		}
		e.read()
	} else {
		fill(&e.members)
	}
	if err := s.write(e); err != nil {
		return "", err
	}
	s.index(e)
	return e.ID, nil
}

// AppendMessage adds a message below the leaf and makes it the leaf. Like all Append methods it returns the new entry's
// id.
func (s *Session) AppendMessage(message json.RawMessage) (string, error) {
	return s.append(TypeMessage, func(o *object) { o.add("message", message) })
}

// AppendThinkingLevel sets the thinking level from here on.
func (s *Session) AppendThinkingLevel(level string) (string, error) {
	return s.append(TypeThinkingLevel, func(o *object) { o.add("thinkingLevel", level) })
}

// AppendModel sets the model from here on.
func (s *Session) AppendModel(m Model) (string, error) {
	return s.append(TypeModel, func(o *object) {
		o.add("provider", m.Provider)
		o.add("modelId", m.ModelID)
	})
}

// AppendCompaction adds a summary that replaces the entries before firstKept in the context.
func (s *Session) AppendCompaction(sum Summary, firstKept string, tokensBefore int64) (string, error) {
	return s.append(TypeCompaction, func(o *object) {
		o.add("summary", sum.Text)
		o.add("firstKeptEntryId", firstKept)
		o.add("tokensBefore", tokensBefore)
		sum.add(o)
	})
}

func (sum Summary) add(o *object) {
	o.add("details", sum.Details)
	if sum.FromHook != nil {
		o.add("fromHook", *sum.FromHook)
	}
}

// AppendCustom adds data of an application. Models never see it.
func (s *Session) AppendCustom(customType string, data json.RawMessage) (string, error) {
	return s.append(TypeCustom, func(o *object) {
		o.add("customType", customType)
		o.add("data", data)
	})
}

// AppendCustomMessage adds a message of an application. Models see it as a user's message. Content is a JSON text or a
// list of blocks.
func (s *Session) AppendCustomMessage(customType string, content json.RawMessage, display bool,
	details json.RawMessage) (string, error) {
	return s.append(TypeCustomMessage, func(o *object) {
		o.add("customType", customType)
		o.add("content", content)
		o.add("display", display)
		o.add("details", details)
	})
}

// AppendName names the session; a blank name removes the name.
func (s *Session) AppendName(name string) (string, error) {
	return s.append(TypeName, func(o *object) { o.add("name", trim(name)) })
}

// AppendLabel labels an entry. A nil or empty label removes the label. The error is [ErrNotFound].
func (s *Session) AppendLabel(target string, label *string) (string, error) {
	if s.byID[target] == nil {
		return "", entryError(target)
	}
	return s.append(TypeLabel, func(o *object) {
		o.add("targetId", target)
		if label != nil {
			o.add("label", *label)
		}
	})
}
