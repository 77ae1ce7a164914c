package loop

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

// Owed is an event that must follow the command_accepted of a command. All events of a command are appended together,
// but a process may die between two of them when the log already knows the command; the next process then appends the
// rest.
type Owed struct {
	By   string              `json:"by"` // id of the command
	Type schemas.EventType   `json:"type"`
	ID   string              `json:"id"` // of the command that the event is about
	Kind schemas.CommandKind `json:"kind"`

	Resolved *schemas.ApprovalResolved `json:"resolved,omitempty"` // for an approval_resolved; ID is its call
	Data     json.RawMessage           `json:"data,omitempty"`     // of an event whose payload is the command's
	Text     string                    `json:"text,omitempty"`     // of a command_applied; the reason of a rejection
	Code     schemas.RejectCode        `json:"code,omitempty"`     // of a rejection
}

// owing returns the owed events followed by more.
func (s *State) owing(more ...Owed) []Owed { return slices.Concat(s.Owed, more) }

// owe records the events that the command_accepted being applied says must follow it. The fold decides nothing, so a
// later version of [Accept] does not change how an old log folds.
func (s *State) owe(d *schemas.CommandAccepted) {
	var more []Owed
	for _, f := range d.Follows {
		if o, ok := owed(d, f); ok {
			if d.Kind == schemas.CommandBranch && s.Origin != nil {
				o.Text = s.Origin.Text
			}
			more = append(more, o)
		}
	}
	if more != nil {
		s.Owed = s.owing(more...)
	}
}

// owed returns the event that one of the command's follows stands for; ok is false if this version cannot append it.
func owed(d *schemas.CommandAccepted, f schemas.Follow) (o Owed, ok bool) {
	o = Owed{By: d.CommandID, Type: f.Type, ID: cmp.Or(f.CommandID, d.CommandID), Kind: cmp.Or(f.Kind, d.Kind)}
	switch f.Type {
	case schemas.EventCommandApplied, schemas.EventCommandSuperseded, schemas.EventCommandWithdrawn:
		return o, true
	case schemas.EventLabel, schemas.EventSessionInfo, schemas.EventCustom, schemas.EventCustomMessage,
		schemas.EventSubagentEnd:
		o.Data = orEmpty(d.Data)
		_, err := schemas.DecodeEventData(o.Type, o.Data)
		return o, err == nil
	case schemas.EventApprovalResolved:
		if f.Resolved != nil {
			o.ID, o.Kind, o.Resolved = string(f.Resolved.Call), "", f.Resolved
			return o, true
		}
	}
	return o, false
}

// follows records in a command_accepted which events follow it.
func follows(events []schemas.EventData) []schemas.Follow {
	list := make([]schemas.Follow, 0, len(events)) // not nil, which would mean the earlier format
	for _, e := range events {
		f := schemas.Follow{Type: e.EventType()}
		switch e := e.(type) {
		case *schemas.CommandApplied: // always of the command itself
		case *schemas.CommandSuperseded:
			f.CommandID, f.Kind = e.CommandID, e.Kind
		case *schemas.CommandWithdrawn:
			f.CommandID, f.Kind = e.CommandID, e.Kind
		case *schemas.ApprovalResolved:
			f.Resolved = e
		}
		list = append(list, f)
	}
	return list
}

// paid records that an event about a command is in the log.
func (s *State) paid(t schemas.EventType, id string) {
	if i := slices.IndexFunc(s.Owed, func(o Owed) bool { return o.Type == t && o.ID == id }); i >= 0 {
		s.Owed = slices.Delete(slices.Clone(s.Owed), i, i+1)
	}
}

// step returns the step that appends the event.
func (o Owed) step() Emit {
	e := Emit{CausationID: o.By}
	switch o.Type {
	case schemas.EventCommandSuperseded:
		e.Data = &schemas.CommandSuperseded{CommandID: o.ID, Kind: o.Kind, By: o.By}
	case schemas.EventCommandWithdrawn:
		e.Data = &schemas.CommandWithdrawn{CommandID: o.ID, Kind: o.Kind, By: o.By}
	case schemas.EventApprovalResolved:
		e.Data = o.Resolved
	case schemas.EventCommandRejected:
		e.Data = &schemas.CommandRejected{CommandID: o.ID, Kind: o.Kind, Code: o.Code, Reason: o.Text}
	case schemas.EventCommandApplied:
		e.Data = &schemas.CommandApplied{CommandID: o.ID, Kind: o.Kind, Text: o.Text}
	default:
		e.Data, _ = schemas.DecodeEventData(o.Type, o.Data) // [owed] has checked that it decodes
	}
	return e
}

// A session remembers its newest commands, so that one of them that is sent again changes nothing. While it is idle it
// forgets all but the newest MaxKnown, so that a session of a million commands does not grow. While it is awake it
// forgets none: until it rests the inbox may redeliver the message that woke it, however many commands came after that
// message. MaxKnownAwake bounds what a session that never rests remembers.
const (
	MaxKnown      = 128
	MaxKnownAwake = 100_000
)

// Known is the set of commands that the log has, by 64-bit hashes of their ids. It also has the place of the newest in
// the inbox: a cluster may lose the deletion of a message that was acknowledged, and deliver the message again when its
// command is forgotten.
type Known struct {
	hashes []uint64
	newest schemas.InboxPosition
	forgot bool // whether there were more
}

// Has reports whether the command is among them.
func (k Known) Has(id string) bool { return slices.Contains(k.hashes, hashOf(id)) }

// MayHaveForgotten reports whether a command that is not among them may be in the log all the same: commands are
// forgotten, and its message is not newer than that of another command in the log, as far as is known. Of another inbox
// it is not: that one may be restored from a backup.
func (k Known) MayHaveForgotten(at schemas.InboxPosition) bool {
	return k.forgot && at.StreamSeq > 0 && k.newest.StreamSeq > 0 &&
		(at.StreamSeq <= k.newest.StreamSeq || at.Inbox != k.newest.Inbox)
}

// Position returns the position of a command's message as the next event has it.
func (k Known) Position(at schemas.InboxPosition) schemas.InboxPosition {
	switch {
	case at.Inbox == k.newest.Inbox:
		at.Inbox = ""
	case at.Inbox == "": // an inbox without a name, after one with a name: the event would mean that one
		return schemas.InboxPosition{}
	}
	return at
}

// IsZero reports whether there are none.
func (k Known) IsZero() bool { return len(k.hashes) == 0 }

// add remembers a command.
func (k *Known) add(id string, at schemas.InboxPosition) {
	if at.Inbox != "" && at.Inbox != k.newest.Inbox {
		k.newest = at
	}
	k.newest.StreamSeq = max(k.newest.StreamSeq, at.StreamSeq)
	if id == "" || k.Has(id) {
		return
	}
	from := max(len(k.hashes)+1-MaxKnownAwake, 0)
	k.hashes = append(k.hashes[from:len(k.hashes):len(k.hashes)], hashOf(id))
	k.forgot = k.forgot || from > 0
}

// forget forgets all but the newest.
func (k *Known) forget() {
	if n := len(k.hashes); n > MaxKnown {
		k.hashes, k.forgot = slices.Clone(k.hashes[n-MaxKnown:]), true
	}
}

// idle reports whether every command of the log has completed, so that no message waits in the inbox for the session to
// rest.
func (s *State) idle() bool {
	return !s.Busy() && len(s.Prompts)+len(s.Steering)+len(s.FollowUp)+len(s.Owed) == 0
}

// hashOf returns the first 64 bits of the SHA-256 of an id: nobody can find an id with the hash of another command,
// which would be taken for that command.
func hashOf(id string) uint64 {
	sum := sha256.Sum256([]byte(id))
	return binary.BigEndian.Uint64(sum[:])
}

// knownJSON is the form of [Known] in a snapshot.
type knownJSON struct {
	Hashes string `json:"hashes"` // in base64
	Forgot bool   `json:"forgot,omitempty"`
	schemas.InboxPosition
}

// MarshalJSON writes the hashes as one string.
func (k Known) MarshalJSON() ([]byte, error) {
	raw := make([]byte, 0, 8*len(k.hashes))
	for _, h := range k.hashes {
		raw = binary.BigEndian.AppendUint64(raw, h)
	}
	return json.Marshal(knownJSON{base64.RawStdEncoding.EncodeToString(raw), k.forgot, k.newest})
}

// UnmarshalJSON reads what [Known.MarshalJSON] has written.
func (k *Known) UnmarshalJSON(data []byte) error {
	var j knownJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	raw, err := base64.RawStdEncoding.DecodeString(j.Hashes)
	if err != nil || len(raw)%8 != 0 {
		return fmt.Errorf("loop: %d bytes of known commands: %v", len(raw), err)
	}
	*k = Known{newest: j.InboxPosition, forgot: j.Forgot}
	for ; len(raw) > 0; raw = raw[8:] {
		k.hashes = append(k.hashes, binary.BigEndian.Uint64(raw))
	}
	return nil
}
