package schemas

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// SpecVersion is the version of CloudEvents in use, Version the version of loopbus's own types.
const (
	SpecVersion = "1.0"
	Version     = "v1"
	TypePrefix  = "dev.loopbus."
	ContentJSON = "application/json"
	SchemaBase  = "https://loopbus.dev/schemas/"
)

// Header names of a CloudEvent in binary mode (NATS protocol binding), and of the trace context. NATS headers are case-sensitive.
const (
	HeaderSpecVersion     = "ce-specversion"
	HeaderID              = "ce-id"
	HeaderSource          = "ce-source"
	HeaderType            = "ce-type"
	HeaderSubject         = "ce-subject"
	HeaderTime            = "ce-time"
	HeaderDataContentType = "ce-datacontenttype"
	HeaderDataSchema      = "ce-dataschema"
	HeaderSequence        = "ce-sequence"
	HeaderRunID           = "ce-runid"
	HeaderTurnID          = "ce-turnid"
	HeaderCorrelationID   = "ce-correlationid"
	HeaderCausationID     = "ce-causationid"
	HeaderPartitionKey    = "ce-partitionkey"
	HeaderTraceParent     = "ce-traceparent"
	HeaderPrevHash        = "ce-prevhash"
	HeaderDataRef         = "ce-dataref"
	HeaderContentType     = "Content-Type"
)

// CloudEventType returns the CloudEvents type of an event, update or command: dev.loopbus.<name>.v1.
func CloudEventType[T ~string](name T) string { return TypePrefix + string(name) + "." + Version }

// ParseCloudEventType is the inverse of [CloudEventType]. Another prefix or version gives an [UnknownTypeError].
func ParseCloudEventType(ceType string) (string, error) {
	name, ok := strings.CutPrefix(ceType, TypePrefix)
	if ok {
		name, ok = strings.CutSuffix(name, "."+Version)
	}
	if !ok {
		return "", &UnknownTypeError{What: "CloudEvents", Type: ceType}
	}
	return name, nil
}

// DataSchema returns the URI of the JSON Schema of an event, update or command.
func DataSchema(area, name string) string {
	return SchemaBase + area + "/" + name + "." + Version + ".json"
}

// EncodeEvent returns an event as a CloudEvent in binary mode: headers and payload. The headers are a fresh map. An
// event without a source, with an illegal session id or with sequence 0 is an error: nobody could read it back.
func EncodeEvent(e Event) (header map[string][]string, payload []byte, err error) {
	if err := checkEnvelope(e.Session, e.Seq, e.Source); err != nil {
		return nil, nil, fmt.Errorf("schemas: encode event %s: %w", e.ID(), err)
	}
	payload, err = marshalPlain(e.Data)
	if err != nil {
		return nil, nil, fmt.Errorf("schemas: encode event %s: %w", e.ID(), err)
	}
	name := string(e.Type())
	h := make(headerMap, 16)
	h.set(HeaderSpecVersion, SpecVersion)
	h.set(HeaderID, e.ID())
	h.set(HeaderSource, e.Source)
	h.set(HeaderType, CloudEventType(name))
	h.set(HeaderSubject, e.Session)
	h.set(HeaderTime, e.Time.UTC().Format(time.RFC3339Nano))
	h.set(HeaderDataContentType, ContentJSON)
	h.set(HeaderDataSchema, DataSchema("events", name))
	h.set(HeaderSequence, fmt.Sprintf("%020d", e.Seq))
	h.set(HeaderRunID, e.RunID)
	h.set(HeaderTurnID, e.TurnID)
	h.set(HeaderCorrelationID, e.CorrelationID)
	h.set(HeaderCausationID, e.CausationID)
	h.set(HeaderPartitionKey, e.Session)
	h.set(HeaderTraceParent, e.TraceParent)
	h.set(HeaderPrevHash, e.PrevHash)
	return h, payload, nil
}

// EncodeUpdate returns an update as a CloudEvent in binary mode. The headers are a fresh map. It refuses what
// [EncodeEvent] refuses.
func EncodeUpdate(u Update) (header map[string][]string, payload []byte, err error) {
	if err := checkEnvelope(u.Session, u.Event, u.Source); err != nil {
		return nil, nil, fmt.Errorf("schemas: encode update %s: %w", u.ID(), err)
	}
	payload, err = marshalPlain(u.Data)
	if err != nil {
		return nil, nil, fmt.Errorf("schemas: encode update %s: %w", u.ID(), err)
	}
	name := string(u.Data.EventType())
	h := make(headerMap, 12)
	h.set(HeaderSpecVersion, SpecVersion)
	h.set(HeaderID, u.ID())
	h.set(HeaderSource, u.Source)
	h.set(HeaderType, CloudEventType(name))
	h.set(HeaderSubject, u.Session)
	h.set(HeaderTime, u.Time.UTC().Format(time.RFC3339Nano))
	h.set(HeaderDataContentType, ContentJSON)
	h.set(HeaderDataSchema, DataSchema("updates", name))
	h.set(HeaderSequence, fmt.Sprintf("%020d.%06d", u.Event, u.N))
	h.set(HeaderRunID, u.RunID)
	h.set(HeaderTurnID, u.TurnID)
	return h, payload, nil
}

// DecodeEvent reads an event from the headers and payload of a stored message. Where the header ce-dataref is set, the
// caller has to fetch the payload first (see [DataRef]). A missing or broken attribute is an error wrapping
// [ErrAttribute], an unknown type an [UnknownTypeError].
func DecodeEvent(header map[string][]string, payload []byte) (Event, error) {
	env, err := readEnvelope(header)
	if err != nil {
		return Event{}, err
	}
	session, seq, err := splitID(env.id)
	if err != nil {
		return Event{}, err
	}
	data, err := DecodeEventData(EventType(env.name), payload)
	if err != nil {
		return Event{}, fmt.Errorf("schemas: event %s: %w", env.id, err)
	}
	return Event{
		Session: session, Seq: seq, Time: env.time, Source: env.source, RunID: env.runID, TurnID: env.turnID,
		CorrelationID: env.correlationID, CausationID: env.causationID,
		TraceParent: env.traceParent, PrevHash: env.prevHash, Data: data,
	}, nil
}

// DecodeUpdate reads an update from the headers and payload of a message. Its errors are those of [DecodeEvent].
func DecodeUpdate(header map[string][]string, payload []byte) (Update, error) {
	env, err := readEnvelope(header)
	if err != nil {
		return Update{}, err
	}
	head, nth, ok := cutLast(env.id, ".")
	n, err := parseCount(nth)
	if !ok || err != nil {
		return Update{}, fmt.Errorf("schemas: %w: update id %.100q is not <session>/<event>.<n>", ErrAttribute, env.id)
	}
	session, seq, err := splitID(head)
	if err != nil {
		return Update{}, err
	}
	data, err := DecodeUpdateData(EventType(env.name), payload)
	if err != nil {
		return Update{}, fmt.Errorf("schemas: update %s: %w", env.id, err)
	}
	return Update{
		Session: session, Event: seq, N: n, Time: env.time, Source: env.source, RunID: env.runID, TurnID: env.turnID,
		Data: data,
	}, nil
}

// DataRef returns where the payload of a message is kept instead of in it, or "".
func DataRef(header map[string][]string) string {
	return (&attributes{header: header}).optional(HeaderDataRef)
}

// Hash is the hash that the next event carries as prevhash: SHA-256, in hex, over the message's ce- headers, sorted, and
// its payload, both as stored. Other headers belong to the transport.
func Hash(header map[string][]string, payload []byte) string {
	keys := make([]string, 0, len(header))
	for k := range header {
		if strings.HasPrefix(k, "ce-") {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	buf := make([]byte, 0, 640+len(payload))
	for _, k := range keys {
		for _, v := range header[k] {
			buf = append(buf, k...)
			buf = append(buf, ':')
			buf = append(buf, v...)
			buf = append(buf, '\n')
		}
	}
	buf = append(buf, '\n')
	buf = append(buf, payload...)
	sum := sha256.Sum256(buf)
	return hex.EncodeToString(sum[:])
}
