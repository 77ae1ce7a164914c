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

// Owed is an event that has to follow the command_accepted of a command. All events of a command are appended together,
// but a process may die between two of them, and the log knows the command by then: so the next process appends the
// rest.
type Owed struct {
	By   string              `json:"by"` // id of the command
	Type schemas.EventType   `json:"type"`
	ID   string              `json:"id"` // of the command that the event is about
	Kind schemas.CommandKind `json:"kind"`

	Resolved *schemas.ApprovalResolved `json:"resolved,omitempty"` // where it is one; ID is its call
	Data     json.RawMessage           `json:"data,omitempty"`     // of an event whose payload is the command's
	Text     string                    `json:"text,omitempty"`     // of a command_applied; the reason of a refusal
	Code     schemas.RejectCode        `json:"code,omitempty"`     // of a refusal
}

// owing is what is owed and some more events.
func (s *State) owing(more ...Owed) []Owed { return slices.Concat(s.Owed, more) }

// owe records what the command_accepted that is being applied says has to follow it. The fold decides nothing: what a
// later version of [Accept] would do with the command makes no difference to a log that has the command already.
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

// owed is what a follow of the command comes to; ok is false where it is an event that this version cannot append.
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

// follows says, in the command_accepted that comes before them, what the events are.
func follows(events []schemas.EventData) []schemas.Follow {
	list := make([]schemas.Follow, 0, len(events)) // never nil: that would be a log of before
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

// paid records that an event about a command is there.
func (s *State) paid(t schemas.EventType, id string) {
	if i := slices.IndexFunc(s.Owed, func(o Owed) bool { return o.Type == t && o.ID == id }); i >= 0 {
		s.Owed = slices.Delete(slices.Clone(s.Owed), i, i+1)
	}
}

// step appends the event.
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
		e.Data, _ = schemas.DecodeEventData(o.Type, o.Data) // [owed] has seen that it can be read
	}
	return e
}

// A session remembers its newest commands: one of them that is sent again changes nothing. It forgets the older ones
// while it is idle, all but MaxKnown, so that a session of a million commands is none the larger for it; and none while
// it is awake, for until it rests the inbox may deliver the message that woke it again, however many commands came
// behind that one. MaxKnownAwake bounds what a session that never rests remembers.
const (
	MaxKnown      = 128
	MaxKnownAwake = 100_000
)

// Known are the commands that the log has, by a hash of 64 bits of their ids.
type Known struct{ hashes []uint64 }

// Has reports whether the command is among them.
func (k Known) Has(id string) bool { return slices.Contains(k.hashes, hashOf(id)) }

// IsZero reports whether there are none.
func (k Known) IsZero() bool { return len(k.hashes) == 0 }

// add remembers a command.
func (k *Known) add(id string) {
	if id == "" || k.Has(id) {
		return
	}
	from := max(len(k.hashes)+1-MaxKnownAwake, 0)
	k.hashes = append(k.hashes[from:len(k.hashes):len(k.hashes)], hashOf(id))
}

// forget forgets all but the newest.
func (k *Known) forget() {
	if n := len(k.hashes); n > MaxKnown {
		k.hashes = slices.Clone(k.hashes[n-MaxKnown:])
	}
}

// idle reports whether every command of the log has come to its end, so that no message waits in the inbox for the
// session to rest.
func (s *State) idle() bool {
	return !s.Busy() && len(s.Prompts)+len(s.Steering)+len(s.FollowUp)+len(s.Owed) == 0
}

// hashOf is the beginning of the SHA-256 of an id: nobody can find an id that has the hash of one of ours, and so be
// taken for it.
func hashOf(id string) uint64 {
	sum := sha256.Sum256([]byte(id))
	return binary.BigEndian.Uint64(sum[:])
}

// MarshalJSON writes the hashes as one text.
func (k Known) MarshalJSON() ([]byte, error) {
	raw := make([]byte, 0, 8*len(k.hashes))
	for _, h := range k.hashes {
		raw = binary.BigEndian.AppendUint64(raw, h)
	}
	return json.Marshal(base64.RawStdEncoding.EncodeToString(raw))
}

// UnmarshalJSON reads what [Known.MarshalJSON] has written.
func (k *Known) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(raw)%8 != 0 {
		return fmt.Errorf("loop: %d bytes of known commands: %v", len(raw), err)
	}
	for ; len(raw) > 0; raw = raw[8:] {
		k.hashes = append(k.hashes, binary.BigEndian.Uint64(raw))
	}
	return nil
}
