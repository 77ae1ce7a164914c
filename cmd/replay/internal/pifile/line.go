package pifile

import (
	"encoding/json"
	"time"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/sessionfile"
)

// The customTypes of the entries and events that only this package creates. An entry of argsType has a call's
// [schemas.ReplacedArguments]; it is between the reply and the result.
const (
	leafType = "loopbus.leaf" // an entry that only marks the leaf as the last entry of a file
	fileType = "loopbus.file" // an event with lines of an imported file
	argsType = "loopbus.replaced_arguments"
)

// A line is an entry of a file. It has the members of all types.
type line struct {
	Type      sessionfile.Type `json:"type"`
	ID        string           `json:"id"`
	ParentID  *string          `json:"parentId"`
	Timestamp string           `json:"timestamp"`

	Message       any    `json:"message,omitempty"`
	Provider      string `json:"provider,omitempty"`
	ModelID       string `json:"modelId,omitempty"`
	ThinkingLevel string `json:"thinkingLevel,omitempty"`

	FromID  string  `json:"fromId,omitempty"`
	Summary *string `json:"summary,omitempty"`

	FirstKeptEntryID string `json:"firstKeptEntryId,omitempty"`
	TokensBefore     *int64 `json:"tokensBefore,omitempty"`

	Details  any  `json:"details,omitempty"`
	FromHook bool `json:"fromHook,omitempty"`

	CustomType string          `json:"customType,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	Content    any             `json:"content,omitempty"`
	Display    *bool           `json:"display,omitempty"`

	TargetID string  `json:"targetId,omitempty"`
	Label    string  `json:"label,omitempty"`
	Name     *string `json:"name,omitempty"`
}

func (l line) entry() (*sessionfile.Entry, error) {
	raw, err := schemas.Marshal(l)
	if err != nil {
		return nil, err
	}
	return sessionfile.NewEntry(raw)
}

func header(session, cwd string, at time.Time) (*sessionfile.Entry, error) {
	raw, err := schemas.Marshal(struct {
		Type      sessionfile.Type `json:"type"`
		Version   int              `json:"version"`
		ID        string           `json:"id"`
		Timestamp string           `json:"timestamp"`
		CWD       string           `json:"cwd"`
	}{sessionfile.TypeSession, sessionfile.Version, session, sessionfile.Stamp(at), cwd})
	if err != nil {
		return nil, err
	}
	return sessionfile.NewEntry(raw)
}
