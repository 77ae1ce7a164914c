package index

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

// Version is the version of the fold. Entries of other versions have different keys and are not read.
const Version = 1

// Entry is what the index knows about a session: the fold over its log up to event Summary.Seq, the last event of the
// message with stream sequence Stream. Entries returned by the index are shared and must not be modified.
type Entry struct {
	Summary schemas.SessionSummary `json:"summary"`
	Stream  uint64                 `json:"stream"`

	Messages      int   `json:"messages,omitempty"`
	ToolCalls     int   `json:"toolCalls,omitempty"`
	ToolErrors    int   `json:"toolErrors,omitempty"`
	ContextTokens int64 `json:"contextTokens,omitempty"`

	// Waiting are the calls that wait for approval, oldest first, at most maxWaiting.
	Waiting []schemas.PendingApproval `json:"waiting,omitempty"`

	// Named reports whether the title is a name that a client set. Said is then the title that the session would have
	// without it.
	Named bool   `json:"named,omitempty"`
	Said  string `json:"said,omitempty"`

	Run       bool   `json:"run,omitempty"`       // a run is in progress
	Summing   string `json:"summing,omitempty"`   // why a session without a run is making a summary: a command, or "auto"
	Calls     int    `json:"calls,omitempty"`     // calls that have started and not ended
	Streaming string `json:"streaming,omitempty"` // id of the reply being streamed
	Subagents int    `json:"subagents,omitempty"` // sub-agents that have started and not ended

	revision uint64 // of the entry in the bucket; 0 until it is stored
}

// Pending reports whether the session waits for something other than an approval or new input: it is at work, has input
// in its queues, or has sub-agents.
func (e *Entry) Pending() bool {
	switch e.Summary.Status {
	case schemas.SessionRunning, schemas.SessionWaitingForTools:
		return true
	case schemas.SessionIdle, schemas.SessionFailed:
		return e.Summary.Queued > 0 || e.Subagents > 0
	}
	return false
}

// Revision returns the revision of the bucket at which the entry was written.
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

// clone returns a copy of the entry that can be folded further.
func (e *Entry) clone() *Entry {
	c := *e
	c.Waiting = slices.Clone(e.Waiting)
	return &c
}
