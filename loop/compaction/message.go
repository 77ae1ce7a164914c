package compaction

import (
	"encoding/json"

	"github.com/loopbus/loopbus/schemas"
)

// The roles of messages that a session has in addition to those that models know.
const (
	RoleBashExecution     schemas.Role = "bashExecution"
	RoleCustom            schemas.Role = "custom"
	RoleBranchSummary     schemas.Role = "branchSummary"
	RoleCompactionSummary schemas.Role = "compactionSummary"
)

// CompactionSummary returns the message that stands for what was compacted. tokensBefore is the size of the context
// before; timestamp is in Unix milliseconds.
func CompactionSummary(summary string, tokensBefore, timestamp int64) schemas.Message {
	return customMessage(RoleCompactionSummary, struct {
		Role         schemas.Role `json:"role"`
		Summary      string       `json:"summary"`
		TokensBefore int64        `json:"tokensBefore"`
		Timestamp    int64        `json:"timestamp"`
	}{RoleCompactionSummary, summary, tokensBefore, timestamp})
}

// BranchSummary returns the message that stands for a branch that was left. fromID is the entry below which the summary
// is put, "root" for none; timestamp is in Unix milliseconds.
func BranchSummary(summary, fromID string, timestamp int64) schemas.Message {
	return customMessage(RoleBranchSummary, struct {
		Role      schemas.Role `json:"role"`
		Summary   string       `json:"summary"`
		FromID    string       `json:"fromId"`
		Timestamp int64        `json:"timestamp"`
	}{RoleBranchSummary, summary, fromID, timestamp})
}

// CustomMessage returns a message of an application's own kind, which models get as a user's message. content is a JSON
// string or a list of blocks; details is any JSON, or nil; timestamp is in Unix milliseconds.
func CustomMessage(kind string, content json.RawMessage, display bool, details json.RawMessage,
	timestamp int64) schemas.Message {
	return customMessage(RoleCustom, struct {
		Role       schemas.Role    `json:"role"`
		CustomType string          `json:"customType"`
		Content    json.RawMessage `json:"content"`
		Display    bool            `json:"display"`
		Details    json.RawMessage `json:"details,omitempty"`
		Timestamp  int64           `json:"timestamp"`
	}{RoleCustom, kind, content, display, details, timestamp})
}

func customMessage(role schemas.Role, value any) schemas.Message {
	raw, err := schemas.Marshal(value)
	if err != nil { // content or details are not JSON
		raw = []byte(`{"role":"` + string(role) + `"}`)
	}
	return &schemas.CustomMessage{Role: role, Raw: raw}
}

// fields are the members of the custom roles that this package reads.
type fields struct {
	Content            json.RawMessage `json:"content"`
	Summary            string          `json:"summary"`
	Command            string          `json:"command"`
	Output             string          `json:"output"`
	ExitCode           *int64          `json:"exitCode"`
	Cancelled          bool            `json:"cancelled"`
	Truncated          bool            `json:"truncated"`
	FullOutputPath     string          `json:"fullOutputPath"`
	ExcludeFromContext bool            `json:"excludeFromContext"`
	Timestamp          int64           `json:"timestamp"`
}

// fieldsOf reads a custom message. Members of a wrong type count as missing.
func fieldsOf(m schemas.Message) (f fields) {
	if c, ok := m.(*schemas.CustomMessage); ok {
		_ = json.Unmarshal(c.Raw, &f)
	}
	return f
}

func summaryOf(m schemas.Message) string { return fieldsOf(m).Summary }

// contents returns the blocks of a custom message, without blocks of unknown kinds.
func (f fields) contents() schemas.Contents {
	var all schemas.Contents
	if len(f.Content) == 0 || string(f.Content) == "null" || all.UnmarshalJSON(f.Content) == nil {
		return all
	}
	var raws []json.RawMessage
	_ = json.Unmarshal(f.Content, &raws)
	for _, raw := range raws {
		var one schemas.Contents
		if one.UnmarshalJSON(append(append([]byte{'['}, raw...), ']')) == nil {
			all = append(all, one...)
		}
	}
	return all
}
