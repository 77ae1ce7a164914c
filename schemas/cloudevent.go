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
	named := wireNames[e.Type()]
	h := newHeader()
	h.set(HeaderSpecVersion, SpecVersion)
	h.set(HeaderID, e.ID())
	h.set(HeaderSource, e.Source)
	h.set(HeaderType, named.ceType)
	h.set(HeaderSubject, e.Session)
	h.set(HeaderTime, e.Time.UTC().Format(time.RFC3339Nano))
	h.set(HeaderDataContentType, ContentJSON)
	h.set(HeaderDataSchema, named.dataSchema)
	h.set(HeaderSequence, padded(e.Seq))
	h.set(HeaderRunID, e.RunID)
	h.set(HeaderTurnID, e.TurnID)
	h.set(HeaderCorrelationID, e.CorrelationID)
	h.set(HeaderCausationID, e.CausationID)
	h.set(HeaderPartitionKey, e.Session)
	h.set(HeaderTraceParent, e.TraceParent)
	h.set(HeaderPrevHash, e.PrevHash)
	return h.values, payload, nil
}

// wireNames are the CloudEvents type and schema of each event type, made once: they are on every event.
var wireNames = func() map[EventType]wireName {
	names := make(map[EventType]wireName, len(eventTypes))
	for t := range eventTypes {
		names[t] = wireName{CloudEventType(t), DataSchema("events", string(t))}
	}
	return names
}()

type wireName struct{ ceType, dataSchema string }

// padded is a sequence of twenty digits, so that text sorts as numbers do.
func padded(seq uint64) string {
	const zeros = "00000000000000000000"
	digits := strconv.FormatUint(seq, 10)
	return zeros[:len(zeros)-len(digits)] + digits
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

// maxPooled is the largest buffer that is kept for the next event.
const maxPooled = 64 << 10

var hashBuffers = sync.Pool{New: func() any { return new([]byte) }}

// Hash is the hash that the next event carries as prevhash: SHA-256, in hex, over the message's ce- headers, sorted, and
// its payload, both as stored. Other headers belong to the transport.
func Hash(header map[string][]string, payload []byte) string {
	var fixed [24]string
	keys := fixed[:0]
	for k := range header {
		if strings.HasPrefix(k, "ce-") {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	pooled := hashBuffers.Get().(*[]byte)
	defer hashBuffers.Put(pooled)
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
