package schemas

import "encoding/json"

// The entries of a session form a tree: each new one is a child of the leaf and becomes the leaf. What a model is shown
// is the path from the root to the leaf. An entry is a message, with the message's id, or one of the entries below and
// summaries, whose id is "e" and the sequence of its event.

// Navigate moves the leaf: to the entry TargetID, or, where that is a user's message or a custom_message, to its
// parent, with its text in the outcome, to be written anew. With Summarize a model sums up what is left behind, which
// is then an entry below the new leaf; CustomInstructions are added to its instructions, or, with ReplaceInstructions,
// said in its place. Label is put on the summary, or, without one, on the target.
type Navigate struct {
	TargetID            string `json:"targetId"`
	Summarize           bool   `json:"summarize,omitempty"`
	CustomInstructions  string `json:"customInstructions,omitempty"`
	ReplaceInstructions bool   `json:"replaceInstructions,omitempty"`
	Label               string `json:"label,omitempty"`
}

// Label is the command and the event that put a label on an entry; an empty one takes it off.
type Label struct {
	TargetID string `json:"targetId"`
	Label    string `json:"label,omitempty"`
}

// Name is the command name and the event session_info: they name the session, for people; an empty one takes the name
// away.
type Name struct {
	Name string `json:"name"`
}

// Custom is the command and the event that add an entry of an application's own, which no model is shown.
type Custom struct {
	CustomType string          `json:"customType"`
	Data       json.RawMessage `json:"data,omitempty"`
}

// AddMessage is the command and the event custom_message, which add a message of an application's own. A model is shown
// it as a user's, and no run begins. Display says that people are to be shown it too.
type AddMessage struct {
	CustomType string          `json:"customType"`
	Content    Contents        `json:"content"`
	Display    bool            `json:"display"`
	Details    json.RawMessage `json:"details,omitempty"`
}

// Leaf says that the leaf was moved from OldLeafID to LeafID, the root where that is empty, because somebody went to
// the entry TargetID. Text is that of the target where it is to be written anew. Of the path as it was, what comes up
// to the entry Keep stays, nothing where that is empty; behind it come Entries, which a state does not have any more
// because they were on another branch. Summary, if any, is an entry below LeafID, and the leaf.
type Leaf struct {
	TargetID  string         `json:"targetId"`
	LeafID    string         `json:"leafId"`
	OldLeafID string         `json:"oldLeafId"`
	Keep      string         `json:"keep,omitempty"`
	Entries   []TreeMessage  `json:"entries,omitempty"`
	Summary   *BranchSummary `json:"summary,omitempty"`
	Text      string         `json:"text,omitempty"`
}

// TreeMessage is an entry of a path and the message that it is there.
type TreeMessage struct {
	ID      string     `json:"id"`
	Message AnyMessage `json:"message"`
}

// BranchSummary is what is known of the branch that was left. FromID is where the summary was put, "root" for the root.
// FromHook says that a service has written it.
type BranchSummary struct {
	FromID   string     `json:"fromId"`
	Summary  string     `json:"summary"`
	Details  *FileLists `json:"details,omitempty"`
	FromHook bool       `json:"fromHook,omitempty"`
}

// FileLists are the files that the calls of a conversation have read, and those that they have changed.
type FileLists struct {
	ReadFiles     []string `json:"readFiles"`
	ModifiedFiles []string `json:"modifiedFiles"`
}

// CommandKind returns "navigate".
func (*Navigate) CommandKind() CommandKind { return CommandNavigate }

// CommandKind returns "label".
func (*Label) CommandKind() CommandKind { return CommandLabel }

// CommandKind returns "name".
func (*Name) CommandKind() CommandKind { return CommandName }

// CommandKind returns "custom".
func (*Custom) CommandKind() CommandKind { return CommandCustom }

// CommandKind returns "custom_message".
func (*AddMessage) CommandKind() CommandKind { return CommandCustomMessage }

// EventType returns "leaf".
func (*Leaf) EventType() EventType { return EventLeaf }

// EventType returns "label".
func (*Label) EventType() EventType { return EventLabel }

// EventType returns "session_info".
func (*Name) EventType() EventType { return EventSessionInfo }

// EventType returns "custom".
func (*Custom) EventType() EventType { return EventCustom }

// EventType returns "custom_message".
func (*AddMessage) EventType() EventType { return EventCustomMessage }

// MarshalJSON never writes null for the lists.
func (l *FileLists) MarshalJSON() ([]byte, error) {
	type plain FileLists
	p := plain(*l)
	p.ReadFiles, p.ModifiedFiles = notNil(p.ReadFiles), notNil(p.ModifiedFiles)
	return marshalPlain(p)
}
