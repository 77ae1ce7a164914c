package schemas

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// Header names of a CloudEvent in binary mode (NATS protocol binding), and of the trace context. NATS headers are
// case-sensitive.
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
// event without a source, with an illegal session id or with sequence 0 is an error, because it could not be decoded
// again.
func EncodeEvent(e Event) (header map[string][]string, payload []byte, err error) {
	if err := checkEnvelope(e.Session, e.Seq, e.Source); err != nil {
		return nil, nil, fmt.Errorf("schemas: encode event %s: %w", e.ID(), err)
	}
	payload, err = marshalPlain(e.Data)
	if err != nil {
		return nil, nil, fmt.Errorf("schemas: encode event %s: %w", e.ID(), err)
	}
	header, payload = StoredEvent{Event: e, Name: string(e.Type()), Raw: payload}.Binary()
	return header, payload, nil
}

// Binary returns the event as a CloudEvent in binary mode with all its attributes: headers and payload. Logs of the
// first version have this form. The headers are a fresh map.
func (s StoredEvent) Binary() (header map[string][]string, payload []byte) {
	h := newHeader()
	h.set(HeaderSpecVersion, SpecVersion)
	h.set(HeaderID, s.ID())
	h.set(HeaderSource, s.Source)
	h.set(HeaderType, CloudEventType(s.Name))
	h.set(HeaderSubject, s.Session)
	h.set(HeaderTime, s.Time.UTC().Format(time.RFC3339Nano))
	h.set(HeaderDataContentType, ContentJSON)
	h.set(HeaderDataSchema, DataSchema("events", s.Name))
	h.set(HeaderSequence, padded(s.Seq))
	h.set(HeaderRunID, s.RunID)
	h.set(HeaderTurnID, s.TurnID)
	h.set(HeaderCorrelationID, s.CorrelationID)
	h.set(HeaderCausationID, s.CausationID)
	h.set(HeaderPartitionKey, s.Session)
	h.set(HeaderTraceParent, s.TraceParent)
	h.set(HeaderPrevHash, s.PrevHash)
	h.set(HeaderDataRef, s.Ref)
	return h.values, s.Raw
}

// wireNames are the CloudEvents types of the events. They are made once, because every event needs one.
var wireNames = func() map[EventType]string {
	names := make(map[EventType]string, len(eventTypes))
	for t := range eventTypes {
		names[t] = CloudEventType(t)
	}
	return names
}()

// padded returns a sequence with twenty digits, so that it sorts as text.
func padded(seq uint64) string {
	const zeros = "00000000000000000000"
	digits := strconv.FormatUint(seq, 10)
	return zeros[:len(zeros)-len(digits)] + digits
}

// EncodeUpdate returns an update as a CloudEvent in binary mode. The headers are a fresh map. Its errors are those of
// [EncodeEvent].
func EncodeUpdate(u Update) (header map[string][]string, payload []byte, err error) {
	if err := checkEnvelope(u.Session, u.Event, u.Source); err != nil {
		return nil, nil, fmt.Errorf("schemas: encode update %s: %w", u.ID(), err)
	}
	payload, err = marshalPlain(u.Data)
	if err != nil {
		return nil, nil, fmt.Errorf("schemas: encode update %s: %w", u.ID(), err)
	}
	name := string(u.Data.EventType())
	h := newHeader()
	h.set(HeaderSpecVersion, SpecVersion)
	h.set(HeaderID, u.ID())
	h.set(HeaderSource, u.Source)
	h.set(HeaderType, CloudEventType(name))
	h.set(HeaderSubject, u.Session)
	h.set(HeaderTime, u.Time.UTC().Format(time.RFC3339Nano))
	h.set(HeaderDataContentType, ContentJSON)
	h.set(HeaderDataSchema, DataSchema("updates", name))
	h.set(HeaderSequence, fmt.Sprintf("%s.%06d", padded(u.Event), u.N))
	h.set(HeaderRunID, u.RunID)
	h.set(HeaderTurnID, u.TurnID)
	return h.values, payload, nil
}

// DecodeEvent decodes an event from the headers and payload of a stored message. If the header ce-dataref is set, the
// caller has to fetch the payload first (see [DataRef]). A missing or broken attribute is an error wrapping
// [ErrAttribute], an unknown type an [UnknownTypeError].
func DecodeEvent(header map[string][]string, payload []byte) (Event, error) {
	s, err := splitBinary(header, payload)
	if err != nil {
		return Event{}, err
	}
	s.Ref = ""
	return s.Decode(nil)
}

// DecodeUpdate decodes an update from the headers and payload of a message. Its errors are those of [DecodeEvent].
func DecodeUpdate(header map[string][]string, payload []byte) (Update, error) {
	env, err := readEnvelope(header)
	if err != nil {
		return Update{}, err
	}
	session, seq, n, err := splitUpdateID(env.id)
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

// UpdateOf returns what an update belongs to, from its headers alone: its session and its event. The error wraps
// [ErrAttribute] if its id says neither.
func UpdateOf(header map[string][]string) (session string, event uint64, err error) {
	session, event, _, err = splitUpdateID((&attributes{header: header}).optional(HeaderID))
	return session, event, err
}

func splitUpdateID(id string) (session string, event, n uint64, err error) {
	head, nth, ok := cutLast(id, ".")
	if n, err = parseCount(nth); !ok || err != nil {
		return "", 0, 0, fmt.Errorf("schemas: %w: update id %.100q is not <session>/<event>.<n>", ErrAttribute, id)
	}
	session, event, err = splitID(head)
	return session, event, n, err
}

// DataRef returns the reference to the payload if that is stored outside the message, else "".
func DataRef(header map[string][]string) string {
	return (&attributes{header: header}).optional(HeaderDataRef)
}

// maxPooled is the largest buffer that is kept for the next use.
const maxPooled = 64 << 10

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Hash returns the hash of a message of a log, which the next message carries: SHA-256, in hex, over its ce- and
// Loopbus- headers, sorted, and its payload, both as stored. Other headers belong to the transport.
func Hash(header map[string][]string, payload []byte) string {
	var fixed [24]string
	keys := fixed[:0]
	for k := range header {
		if strings.HasPrefix(k, "ce-") || strings.HasPrefix(k, "Loopbus-") {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	pooled := buffers.Get().(*[]byte)
	defer buffers.Put(pooled)
	buf := (*pooled)[:0]
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
	if cap(buf) <= maxPooled {
		*pooled = buf
	}
	return hex.EncodeToString(sum[:])
}
