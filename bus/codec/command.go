package codec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"mime"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// RejectError is the reason why a message is not a valid command. Code is one of the Reject codes of package schemas.
// Reason is for the sender, and does not quote the content of the message.
type RejectError struct {
	Code   schemas.RejectCode
	Reason string
}

// Error returns the code and the reason.
func (e *RejectError) Error() string { return string(e.Code) + ": " + e.Reason }

func reject(code schemas.RejectCode, format string, args ...any) *RejectError {
	return &RejectError{Code: code, Reason: fmt.Sprintf(format, args...)}
}

// DecodeCommand decodes a message of a session's inbox. A message is a CloudEvent in structured or binary mode, the
// bare JSON of the command, or, for prompt, steer and follow_up, plain text. The id of the command is that in
// [HeaderCommandID], that of the CloudEvent, that in the JSON, the Nats-Msg-Id, or fallbackID; the first of them that
// is present counts. Its time is that of the CloudEvent, or storedAt.
//
// The id of a tool_result is the one that workers assign, or fallbackID: the call decides which result it is, and a
// toolworker must not take the id of a client's command.
//
// A message that a NATS server may have sent, because a client gave the inbox as a reply subject, is rejected, with
// [schemas.RejectForeign] if no client can have sent it. Every error is a [*RejectError].
func DecodeCommand(session string, kind schemas.CommandKind, header nats.Header, data []byte, fallbackID string,
	storedAt time.Time,
) (schemas.Command, error) {
	if err := checkHeaders(kind, header); err != nil {
		return schemas.Command{}, err
	}
	if !schemas.KnownCommand(kind) {
		if IsForeign(header, data) {
			return schemas.Command{}, errAnswer
		}
		return schemas.Command{}, reject(schemas.RejectUnknown, "there is no command %.40q", string(kind))
	}
	body, err := openEnvelope(session, kind, header, data)
	if err != nil {
		return schemas.Command{}, err
	}
	if body.bare && isCommit(data) && !isFromClient(header) {
		return schemas.Command{}, errAnswer
	}
	if body.bare && !body.plain && !needsContent(kind) {
		if err := checkBare(kind, header, data); err != nil {
			return schemas.Command{}, err
		}
	}
	innerID, payload, err := body.decode(kind)
	if err != nil && body.bare && !body.plain {
		err = cmp.Or(checkBare(kind, header, data), err)
	}
	if err != nil {
		return schemas.Command{}, err
	}
	id := cmp.Or(first(header, HeaderCommandID), body.id, innerID, first(header, jetstream.MsgIDHeader), fallbackID)
	if err := checkCommandID(id); err != nil {
		return schemas.Command{}, err
	}
	if id != fallbackID && schemas.IsReservedCommandID(id) && !isOwn(session, id, payload) {
		return schemas.Command{}, reject(schemas.RejectInvalid, "ids that begin with %s are the service's own",
			strings.Join(schemas.ReservedCommandIDs(), ", "))
	}
	if onlyRunnersSend(kind) && !isOwn(session, id, payload) {
		return schemas.Command{}, reject(schemas.RejectInvalid, "a %s has the id that a runner gives it", kind)
	}
	if result, ok := payload.(*schemas.ToolResponse); ok {
		result.Nonce = cmp.Or(result.Nonce, nonceIn(first(header, jetstream.MsgIDHeader), session, result.Call))
		if !isOwn(session, id, payload) {
			id = fallbackID
		}
	}
	removeSignatures(payload)
	return schemas.Command{
		ID: id, Session: session, Source: body.source, Time: cmp.Or(body.time, storedAt),
		TraceParent: body.trace, Data: payload,
	}, nil
}

// nonceIn returns the nonce in the Nats-Msg-Id of a result, <session>/<call>/<nonce>/result. A worker may name it only
// there.
func nonceIn(msgID, session string, call schemas.CallKey) string {
	rest, _ := strings.CutPrefix(msgID, session+"/"+string(call)+"/")
	nonce, _ := strings.CutSuffix(rest, "/result")
	if rest == msgID || nonce == rest {
		return ""
	}
	return nonce
}

// commandBody is a command without its envelope. id, source and time are empty if there was no envelope.
type commandBody struct {
	id, source, trace string
	time              time.Time
	data              []byte
	plain             bool // data is plain text
	bare              bool // there was no CloudEvent around it
}

// openEnvelope removes the CloudEvent around a command, if there is one, and checks that it matches the subject.
func openEnvelope(session string, kind schemas.CommandKind, header nats.Header, data []byte) (commandBody, error) {
	e, mode, err := DecodeCloudEvent(header, data)
	if mode == ModeNone {
		trace := traceParent(first(header, HeaderTraceParent))
		return commandBody{trace: trace, data: data, plain: schemas.IsPlainText(data), bare: true}, nil
	}
	if err != nil {
		return commandBody{}, reject(schemas.RejectCloudEvent, "%v", err)
	}
	if want := schemas.CloudEventType(kind); e.Type() != want {
		return commandBody{}, reject(schemas.RejectCloudEvent, "type is %.80q, not %q", e.Type(), want)
	}
	if subject := e.Subject(); subject != "" && subject != session {
		return commandBody{}, reject(schemas.RejectCloudEvent, "subject is %.80q, not the session %q", subject, session)
	}
	b := commandBody{id: e.ID(), source: e.Source(), time: e.Time()}
	inner, _ := e.Extensions()[HeaderTraceParent].(string)
	b.trace = traceParent(cmp.Or(inner, first(header, HeaderTraceParent)))
	if b.data, b.plain, err = textOrJSON(e); err != nil {
		return commandBody{}, err
	}
	return b, nil
}

// textOrJSON returns the data of a CloudEvent and whether it is plain text. Data without a content type is classified
// like a bare payload. A JSON string is plain text, and is returned decoded.
func textOrJSON(e event.Event) (data []byte, plain bool, err error) {
	contentType := e.DataContentType()
	if media, _, err := mime.ParseMediaType(contentType); err == nil && media == "text/plain" {
		return e.Data(), true, nil
	}
	if !isJSON(contentType) {
		return nil, false, reject(schemas.RejectCloudEvent, "datacontenttype %.60q is neither JSON nor text/plain",
			contentType)
	}
	data = e.Data()
	var text string
	if bytes.HasPrefix(data, []byte{'"'}) && json.Unmarshal(data, &text) == nil {
		return []byte(text), true, nil
	}
	return data, contentType == "" && schemas.IsPlainText(data), nil
}

// decode returns the id inside the JSON, if any, and the payload.
func (b commandBody) decode(kind schemas.CommandKind) (id string, data schemas.CommandData, err error) {
	if !b.plain {
		id, data, err = schemas.ParseCommand(kind, b.data)
	} else if takesText(kind) {
		data, err = schemas.PlainText(kind, b.data)
	} else {
		return "", nil, reject(schemas.RejectNotPlain, "a %s command has to be JSON or a CloudEvent", kind)
	}
	if err != nil {
		return "", nil, reject(schemas.RejectInvalid, "%s", strings.TrimPrefix(err.Error(), "schemas: "))
	}
	return id, data, nil
}

// needsContent reports whether a command has required members that no answer of a server has.
func needsContent(kind schemas.CommandKind) bool {
	return takesText(kind) || kind == schemas.CommandToolResult
}

func takesText(kind schemas.CommandKind) bool {
	return kind == schemas.CommandPrompt || kind == schemas.CommandSteer || kind == schemas.CommandFollowUp
}

// isOwn reports whether a command has the id that a runner assigns to it.
func isOwn(session, id string, data schemas.CommandData) bool {
	switch d := data.(type) {
	case *schemas.Timer:
		return strings.HasPrefix(id, "timer-"+d.Name+"-")
	case *schemas.ToolResponse:
		return id == "result/"+string(d.Call)
	case *schemas.SubagentPrompt:
		return id == d.Parent.PromptID()
	case *schemas.SubagentAbort:
		return id == d.Parent.AbortID()
	case *schemas.SubagentResult:
		return id == d.ID(session)
	}
	return false
}

// onlyRunnersSend reports whether only runners send commands of a kind. Such a command must have the id that a runner
// assigns.
func onlyRunnersSend(kind schemas.CommandKind) bool {
	switch kind {
	case schemas.CommandTimer, schemas.CommandSubagentPrompt, schemas.CommandSubagentAbort,
		schemas.CommandSubagentResult:
		return true
	}
	return false
}

// checkCommandID rejects an id that is too long or not printable.
func checkCommandID(id string) error {
	if err := schemas.CheckCommandID(id); err != nil {
		return reject(schemas.RejectInvalid, "%v", err)
	}
	return nil
}

// HeaderTraceParent is the name of the header with the W3C trace context of a bare payload, and of the extension with
// the trace context of a CloudEvent.
const HeaderTraceParent = "traceparent"

var traceParentRE = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traceParent returns a trace context if it is valid. An invalid one is omitted: it is no reason to reject a command.
func traceParent(s string) string {
	if traceParentRE.MatchString(s) {
		return s
	}
	return ""
}

// CommandID returns the id of a rejected message: the id that its sender set in a header, if that one is legal and not
// reserved, or stored, its [StoredID], which is the same at every delivery. A tool_result has stored always: a
// toolworker, which may send results to every session, must not take the id of a client's next prompt.
func CommandID(kind schemas.CommandKind, header nats.Header, stored string) string {
	if kind == schemas.CommandToolResult {
		return stored
	}
	eventID, err := schemas.DecodeHeaderValue(first(header, schemas.HeaderID))
	if err != nil {
		eventID = ""
	}
	for _, id := range []string{first(header, HeaderCommandID), eventID, first(header, jetstream.MsgIDHeader)} {
		if id != "" && checkCommandID(id) == nil && !schemas.IsReservedCommandID(id) {
			return id
		}
	}
	return stored
}

// StoredID returns the id of a command without an id of its own, from the place where it is stored. inbox names the
// stream AGENT_CMD, because a log may have commands of another one: it was restored elsewhere, or the stream was
// created again. The time when the message was stored is in it, because a stream that was restored, or has lost what
// was not synced, gives sequences a second time. The inboxes of earlier versions have no name, or one without
// [schemas.TimedInbox].
func StoredID(inbox string, seq uint64, stored time.Time) string {
	id := "cmd-"
	if inbox != "" {
		id += inbox + "-"
	}
	id += strconv.FormatUint(seq, 10)
	if strings.HasPrefix(inbox, schemas.TimedInbox) {
		id += "-" + strconv.FormatInt(stored.UnixNano(), 36)
	}
	return id
}
