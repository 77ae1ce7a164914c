package compaction

import "github.com/loopbus/loopbus/schemas"

// Kind is the kind of an entry of a session's tree, as far as it matters for compaction.
type Kind string

// The kinds that compaction distinguishes. Any other kind is an entry without a message: a setting, a label, a name, an
// application's state.
const (
	KindMessage       Kind = "message"
	KindCustomMessage Kind = "custom_message"
	KindBranchSummary Kind = "branch_summary"
	KindCompaction    Kind = "compaction"
)

// An Entry is one entry of a path through a session's tree. A path goes from the root to the leaf.
type Entry struct {
	ID   string
	Kind Kind
	// Message is the entry's message: the message itself, a [CustomMessage] for a custom_message, a [BranchSummary] for a
	// branch_summary, a [CompactionSummary] for a compaction. It is nil for an entry without a message.
	Message schemas.Message
	// FirstKept is, for a compaction, the id of the first entry that it kept.
	FirstKept string
	// Files are, for a compaction and a branch_summary, the files that its summary lists.
	Files FileLists
	// FromHook reports whether a service made the summary; its list of files is then not used.
	FromHook bool
}

// Context returns the messages that a model gets at the end of the path: all messages of the path or, after a
// compaction, the summary of the last one, the messages that it kept, and those that came later.
func Context(path []Entry) []schemas.Message {
	messages := []schemas.Message{}
	last := lastCompaction(path)
	if last < 0 {
		return appendShown(messages, path)
	}
	messages = append(messages, path[last].Message)
	if kept := indexOf(path[:last], path[last].FirstKept); kept >= 0 {
		messages = appendShown(messages, path[kept:last])
	}
	return appendShown(messages, path[last+1:])
}

func appendShown(messages []schemas.Message, entries []Entry) []schemas.Message {
	for _, e := range entries {
		if m := e.shown(); m != nil && e.Kind != KindCompaction && !(e.Kind == KindBranchSummary && summaryOf(m) == "") {
			messages = append(messages, m)
		}
	}
	return messages
}

// shown returns the entry's message, nil if its kind has none.
func (e Entry) shown() schemas.Message {
	switch e.Kind {
	case KindMessage, KindCustomMessage, KindBranchSummary, KindCompaction:
		return e.Message
	}
	return nil
}

// role returns the role of a message entry, "" for any other entry.
func (e Entry) role() schemas.Role {
	if e.Kind != KindMessage || e.Message == nil {
		return ""
	}
	return e.Message.MessageRole()
}

func lastCompaction(path []Entry) int {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i].Kind == KindCompaction {
			return i
		}
	}
	return -1
}

func indexOf(path []Entry, id string) int {
	for i, e := range path {
		if id != "" && e.ID == id {
			return i
		}
	}
	return -1
}
