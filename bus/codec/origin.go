package codec

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// A NATS server checks the subject of a publish and not its reply, and answers to that reply: acknowledgements, errors,
// states of consumers and stored messages. So whoever may publish anything can have the server publish its answer into
// any session's inbox, and an answer must never pass for a command. What a server sends is recognised by its headers
// and by the members of its JSON (docs/protocol.md); what could be either is refused, and the error says what its
// sender has to add.

// HeaderCommand is the header with a command's kind, for a payload that has nothing else to show that a client meant
// it.
const HeaderCommand = "Loopbus-Command"

// apiType begins the member "type" of what the JetStream API and the services framework of NATS answer.
const apiType = "io.nats."

// serverHeaders are of status messages, and of messages of loopbus that are no commands.
var serverHeaders = []string{
	"Status", "Nats-Last-Consumer", "Nats-Pending-Messages", schemas.HeaderCommit, schemas.HeaderDispatch,
}

// addedHeaders are what a server adds to a stored message that it answers with.
var addedHeaders = []string{"Nats-Stream", "Nats-Sequence"}

// IsAnswer reports whether a message that is neither a command nor an event is what a NATS server answered, to wherever
// somebody had it sent: an acknowledgement, a status, a stored message or event.
func IsAnswer(header nats.Header, data []byte) bool {
	for name := range header {
		if strings.HasPrefix(name, attributePrefix) || slices.Contains(serverHeaders, name) ||
			slices.Contains(addedHeaders, name) {
			return true
		}
	}
	var members map[string]json.RawMessage
	return json.Unmarshal(data, &members) == nil && isAnswer(members)
}

// IsAnnounced reports whether a message is what somebody has published to all who listen, and wants no reply to. What a
// server or a service answers is not, nor is what a consumer delivers, which has a reply to acknowledge it by.
func IsAnnounced(m *nats.Msg) bool { return m.Reply == "" && !IsAnswer(m.Header, m.Data) }

// checkHeaders refuses a message that is no client's by its headers.
func checkHeaders(kind schemas.CommandKind, header nats.Header) error {
	for _, name := range serverHeaders {
		if len(header[name]) > 0 {
			return reject(schemas.RejectForeign, "it has the header %s, which no command has", name)
		}
	}
	if named := first(header, HeaderCommand); named != "" && named != string(kind) {
		return reject(schemas.RejectInvalid, "the header %s says %.40q, the subject %s", HeaderCommand, named, kind)
	}
	return nil
}

// isMeant reports whether a message has a header that only a client gives it.
func isMeant(header nats.Header) bool {
	for name := range header {
		if strings.HasPrefix(name, attributePrefix) || name == HeaderCommand || name == jetstream.MsgIDHeader {
			return true
		}
	}
	return false
}

// checkBare refuses a bare payload that a server could have sent. Inputs and results have members that they cannot be
// without, and that no answer has, so that they are looked at only where they have turned out to be no commands.
func checkBare(kind schemas.CommandKind, header nats.Header, data []byte) error {
	if len(strings.TrimSpace(string(data))) == 0 {
		if isMeant(header) {
			return nil
		}
		return reject(schemas.RejectInvalid, "the payload is empty, as an acknowledgement of the NATS server may be: "+
			"send {} or the header %s: %s", HeaderCommand, kind)
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil || len(members) == 0 {
		return nil // said better by the command's schema; {} is no answer of a server
	}
	if isAnswer(members) {
		return reject(schemas.RejectForeign, "it is an answer of a NATS server or of a service")
	}
	for name := range members {
		if schemas.KnownMember(kind, name) {
			return nil
		}
	}
	if isMeant(header) {
		return nil
	}
	return reject(schemas.RejectInvalid, "the object has no member of a %s command, and no header %s: %s says that "+
		"it is one", kind, HeaderCommand, kind)
}

// isAnswer reports whether a JSON object is what a stream, the JetStream API or the services framework answers.
func isAnswer(members map[string]json.RawMessage) bool {
	var name string
	if json.Unmarshal(members["type"], &name) == nil && strings.HasPrefix(name, apiType) {
		return true
	}
	if members["stream"] == nil || members["seq"] == nil {
		return false
	}
	for name := range members {
		if !publishAnswer[name] {
			return false
		}
	}
	return true
}

// publishAnswer are the members of a stream's answer to a publish.
var publishAnswer = map[string]bool{"stream": true, "seq": true, "domain": true, "duplicate": true, "error": true,
	"val": true, "batch": true, "count": true}
