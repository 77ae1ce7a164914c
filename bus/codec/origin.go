package codec

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// A NATS server checks the permission for the subject of a publish, but not for its reply subject, to which it
// publishes its answers: acknowledgements, errors, states of consumers and stored messages. Nor does a server of a
// cluster check where it publishes traces. So any client that may publish a message can have the server publish an
// answer into the inbox of any session, and an answer must never be taken for a command. Answers are recognised by
// their headers and by the members of their JSON (docs/protocol.md). A message that could be from a client or from a
// server is rejected, and the error tells the sender what to add.

// HeaderCommand is the name of the header with a command's kind. A client sets it if nothing else shows that a message
// is a command.
const HeaderCommand = "Loopbus-Command"

// HeaderCommandID is the name of the header with a command's id, which then counts in place of the id in the message.
// Who sends a dead letter again sets it: the session has rejected the command under the other id, so it knows that one.
const HeaderCommandID = "Loopbus-Command-Id"

// apiType is the prefix of the member "type" in answers of the JetStream API and of the services framework of NATS.
const apiType = "io.nats."

// serverHeaders are headers of status messages, of compressed traces, and of messages of loopbus that are not commands.
var serverHeaders = []string{
	"Status", "Content-Encoding", "Nats-Last-Consumer", "Nats-Pending-Messages", schemas.HeaderCommit,
	schemas.HeaderDispatch,
}

// addedHeaders are the headers that a server adds to a stored message in an answer.
var addedHeaders = []string{"Nats-Stream", "Nats-Sequence"}

// IsAnswer reports whether a message is an answer of a NATS server that a client directed to its subject: an
// acknowledgement, a status, or a stored message or event. It must not be called for a command or an event, because it
// takes every message with a header of a CloudEvent for a stored one.
func IsAnswer(header nats.Header, data []byte) bool {
	for name := range header {
		if strings.HasPrefix(name, attributePrefix) || slices.Contains(serverHeaders, name) ||
			slices.Contains(addedHeaders, name) {
			return true
		}
	}
	return isCommit(data) || isAnswer(data)
}

// IsAnnounced reports whether a client published a message to all subscribers without requesting a reply. It is false
// for an answer of a server or a service, and for a message that a consumer delivers, which has a reply subject for its
// acknowledgement.
func IsAnnounced(m *nats.Msg) bool { return m.Reply == "" && !IsAnswer(m.Header, m.Data) }

// checkHeaders rejects a message whose headers show that no client sent it as a command of that kind.
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

var errAnswer = reject(schemas.RejectForeign, "it is an answer of a NATS server or of a service")

// IsForeign reports whether a message that is no command, whatever its session and kind, may be an answer of a server.
// Nobody waits for the outcome of such a message, and whoever directed it here must not write into a session's log.
func IsForeign(header nats.Header, data []byte) bool {
	if len(bytes.TrimSpace(data)) == 0 {
		return !isFromClient(header)
	}
	return isCommit(data) && !isFromClient(header) || isAnswer(data)
}

// isCommit reports whether a payload is a commit of a log. A direct get with the member no_hdr answers without any
// header.
func isCommit(data []byte) bool {
	if !bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("[")) || !json.Valid(data) {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(data))
	_, _ = d.Token() // the bracket
	var first struct {
		SpecVersion string `json:"specversion"`
	}
	return d.More() && d.Decode(&first) == nil && first.SpecVersion != ""
}

// isFromClient reports whether a message has a header that only clients set.
func isFromClient(header nats.Header) bool {
	for name := range header {
		if strings.HasPrefix(name, attributePrefix) || name == HeaderCommand || name == jetstream.MsgIDHeader {
			return true
		}
	}
	return false
}

// checkBare rejects a bare payload that a server could have sent. For kinds with required members that no answer has,
// see needsContent, it is called only if the payload has turned out to be invalid.
func checkBare(kind schemas.CommandKind, header nats.Header, data []byte) error {
	if len(strings.TrimSpace(string(data))) == 0 {
		if isFromClient(header) {
			return nil
		}
		return reject(schemas.RejectInvalid, "the payload is empty, as an acknowledgement of the NATS server may be: "+
			"send {} or the header %s: %s", HeaderCommand, kind)
	}
	var a answer
	empty, known := true, false
	object := eachMember(data, func(name string, value json.RawMessage) {
		a.add(name, value)
		empty, known = false, known || schemas.KnownMember(kind, name)
	})
	switch {
	case !object || empty: // the command's schema has the better error; {} is not an answer of a server
		return nil
	case a.is():
		return errAnswer
	case known:
		return nil
	}
	if isFromClient(header) {
		return nil
	}
	return reject(schemas.RejectInvalid, "the object has no member of a %s command, and no header %s: %s says that "+
		"it is one", kind, HeaderCommand, kind)
}
