package schemas

import "encoding/json"

// The entries of a session form a tree: each new entry is a child of the leaf and becomes the leaf. A model gets the
// path from the root to the leaf. The id of an entry that is a message is the message's id. The id of any other entry
// is "e" and the sequence of its event.

// Navigate moves the leaf to the entry TargetID. If that is a user's message or a custom_message, the leaf moves to its
// parent, and the outcome has the text of the message, for the user to edit. If Summarize is set, a model summarizes
// the entries that are left behind, and the summary is an entry below the new leaf. CustomInstructions are added to the
// model's instructions; with ReplaceInstructions they replace them. Label is that of the summary, or, without one, of
// the target.
type Navigate struct {
	TargetID            string `json:"targetId"`
	Summarize           bool   `json:"summarize,omitempty"`
	CustomInstructions  string `json:"customInstructions,omitempty"`
	ReplaceInstructions bool   `json:"replaceInstructions,omitempty"`
	Label               string `json:"label,omitempty"`
}

// Label is the command and the event that label an entry; an empty label removes it.
type Label struct {
	TargetID string `json:"targetId"`
	Label    string `json:"label,omitempty"`
}

// Name is the command name and the event session_info: they name the session, for people; an empty name removes it.
type Name struct {
	Name string `json:"name"`
}

// Custom is the command and the event that add an entry of an application. Models never see it.
type Custom struct {
	CustomType string          `json:"customType"`
	Data       json.RawMessage `json:"data,omitempty"`
}

// AddMessage is the command and the event custom_message, which add a message of an application. Models see it as a
// user's message. It starts no run. Display is whether to show it to people too.
type AddMessage struct {
	CustomType string          `json:"customType"`
	Content    Contents        `json:"content"`
	Display    bool            `json:"display"`
	Details    json.RawMessage `json:"details,omitempty"`
}

// Leaf is the event of a leaf that a navigate to the entry TargetID moved from OldLeafID to LeafID, which is the root
// if empty. Text is that of the target if it is a message for the user to edit. The new path consists of the old one up
// to the entry Keep, or of none of it if Keep is empty, and of Entries, which were on another branch and so are not
// part of the state. Summary, if any, is an entry below LeafID and becomes the leaf.
type Leaf struct {
	TargetID  string         `json:"targetId"`
	LeafID    string         `json:"leafId"`
	OldLeafID string         `json:"oldLeafId"`
	Keep      string         `json:"keep,omitempty"`
	Entries   []TreeMessage  `json:"entries,omitempty"`
	Summary   *BranchSummary `json:"summary,omitempty"`
	Text      string         `json:"text,omitempty"`
}

// TreeMessage is an entry of a path with its message.
type TreeMessage struct {
	ID      string     `json:"id"`
	Message AnyMessage `json:"message"`
}

// Copied returns the messages that the event has from another branch.
func (d *Leaf) Copied() (ms Messages) {
	for _, e := range d.Entries {
		ms = append(ms, e.Message.Message)
	}
	return ms
}

// BranchSummary is the summary of a branch that was left. FromID is its parent, "root" for the root. FromHook is true
// if a service has written it.
type BranchSummary struct {
	FromID   string     `json:"fromId"`
	Summary  string     `json:"summary"`
	Details  *FileLists `json:"details,omitempty"`
	FromHook bool       `json:"fromHook,omitempty"`
}

// FileLists are the files that the tool calls of a conversation have read, and those that they have changed.
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
