package index

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

// Version is the version of the fold. Entries of another one are not read: their keys are others.
const Version = 1

// Entry is what the index has of a session: the fold over its log up to the event Summary.Seq, which ends the message
// of the log with the sequence Stream in its stream. Entries that the index gives are shared and must not be changed.
type Entry struct {
	Summary schemas.SessionSummary `json:"summary"`
	Stream  uint64                 `json:"stream"`

	Messages      int   `json:"messages,omitempty"`
	ToolCalls     int   `json:"toolCalls,omitempty"`
	ToolErrors    int   `json:"toolErrors,omitempty"`
	ContextTokens int64 `json:"contextTokens,omitempty"`

	// Waiting are calls that wait for approval, the oldest first, at most maxWaiting.
	Waiting []schemas.PendingApproval `json:"waiting,omitempty"`

	// Named says that the title is a name, which somebody gave. Said is then what the title would be without it.
	Named bool   `json:"named,omitempty"`
	Said  string `json:"said,omitempty"`

	Run       bool   `json:"run,omitempty"`       // a run is under way
	Summing   string `json:"summing,omitempty"`   // why a session without a run is at work: a command, or "auto"
	Calls     int    `json:"calls,omitempty"`     // that have begun and not ended
	Streaming string `json:"streaming,omitempty"` // id of the reply that is being streamed

	revision uint64 // of the entry in the bucket; 0 until it is there
}

// Revision is the revision of the bucket that wrote the entry.
func (e *Entry) Revision() uint64 { return e.revision }

func (e *Entry) encode() ([]byte, error) { return schemas.Marshal(e) }

func decodeEntry(session string, value []byte) (*Entry, error) {
	e := new(Entry)
	if err := json.Unmarshal(value, e); err != nil {
		return nil, fmt.Errorf("entry of session %s: %w", session, err)
	}
	if e.Summary.Session != session {
		return nil, fmt.Errorf("entry of session %s is of session %.80q", session, e.Summary.Session)
	}
	return e, nil
}

// clone returns an entry that can be folded on without changing this one.
func (e *Entry) clone() *Entry {
	c := *e
	c.Waiting = slices.Clone(e.Waiting)
	return &c
}
