package schemas

import "time"

// Headers of the messages of a model call on a bus. Each direction of a call counts its own.
const (
	HeaderModelSeq    = "Loopbus-Model-Seq"    // number of the message: 1, 2, 3 ... without a gap
	HeaderModelMore   = "Loopbus-Model-More"   // "1": the payload goes on in the next message
	HeaderModelCancel = "Loopbus-Model-Cancel" // "1": the call is to stop; such a message has no number
)

// ModelFrame is one payload of the answer to a [ModelRequest] on a bus. The first one names the call. Message belongs
// to the events start, done and error, which do not encode theirs.
type ModelFrame struct {
	Call    string            `json:"call,omitempty"`
	Event   *StreamEvent      `json:"event,omitempty"`
	Message *AssistantMessage `json:"message,omitempty"`
}

// KeyAnswer is what a key service or a key command says where it does not say a key as plain text. It is written
// nowhere: a key is in no event, log line or error.
type KeyAnswer struct {
	Key       string    `json:"key"`                // empty if there is none
	ExpiresAt time.Time `json:"expiresAt,omitzero"` // zero: the key is used once
}
