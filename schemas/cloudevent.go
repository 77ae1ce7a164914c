package schemas

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
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

// EncodeEvent returns an event as a CloudEvent in binary mode: headers and payload. The headers are a fresh map.
func EncodeEvent(e Event) (header map[string][]string, payload []byte, err error) {
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

// EncodeUpdate returns an update as a CloudEvent in binary mode. The headers are a fresh map.
func EncodeUpdate(u Update) (header map[string][]string, payload []byte, err error) {
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
// caller has to fetch the payload first (see [DataRef]). A missing attribute is an error, an unknown type an [UnknownTypeError].
func DecodeEvent(header map[string][]string, payload []byte) (Event, error) {
	h := headerMap(header)
	session, seq, err := splitID(h.get(HeaderID))
	if err != nil {
		return Event{}, err
	}
	name, err := ParseCloudEventType(h.get(HeaderType))
	if err != nil {
		return Event{}, fmt.Errorf("event %s/%d: %w", session, seq, err)
	}
	at, err := time.Parse(time.RFC3339Nano, h.get(HeaderTime))
	if err != nil {
		return Event{}, fmt.Errorf("schemas: event %s/%d: time: %w", session, seq, err)
	}
	data, err := DecodeEventData(EventType(name), payload)
	if err != nil {
		return Event{}, fmt.Errorf("schemas: event %s/%d: %w", session, seq, err)
	}
	return Event{
		Session: session, Seq: seq, Time: at, Source: h.get(HeaderSource),
		RunID: h.get(HeaderRunID), TurnID: h.get(HeaderTurnID),
		CorrelationID: h.get(HeaderCorrelationID), CausationID: h.get(HeaderCausationID),
		TraceParent: h.get(HeaderTraceParent), PrevHash: h.get(HeaderPrevHash), Data: data,
	}, nil
}

// DecodeUpdate reads an update from the headers and payload of a message.
func DecodeUpdate(header map[string][]string, payload []byte) (Update, error) {
	h := headerMap(header)
	id := h.get(HeaderID)
	head, nth, ok := cutLast(id, ".")
	n, err := strconv.ParseUint(nth, 10, 64)
	if !ok || err != nil {
		return Update{}, fmt.Errorf("schemas: update id %q is not <session>/<event>.<n>", id)
	}
	session, seq, err := splitID(head)
	if err != nil {
		return Update{}, err
	}
	name, err := ParseCloudEventType(h.get(HeaderType))
	if err != nil {
		return Update{}, fmt.Errorf("update %s: %w", id, err)
	}
	at, err := time.Parse(time.RFC3339Nano, h.get(HeaderTime))
	if err != nil {
		return Update{}, fmt.Errorf("schemas: update %s: time: %w", id, err)
	}
	data, err := DecodeUpdateData(EventType(name), payload)
	if err != nil {
		return Update{}, fmt.Errorf("schemas: update %s: %w", id, err)
	}
	return Update{Session: session, Event: seq, N: n, Time: at, Source: h.get(HeaderSource),
		RunID: h.get(HeaderRunID), TurnID: h.get(HeaderTurnID), Data: data}, nil
}

// DataRef returns where the payload of a message is kept instead of in it, or "".
func DataRef(header map[string][]string) string { return headerMap(header).get(HeaderDataRef) }

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

func splitID(id string) (session string, seq uint64, err error) {
	session, tail, ok := cutLast(id, "/")
	seq, err = strconv.ParseUint(tail, 10, 64)
	if !ok || err != nil || seq == 0 {
		return "", 0, fmt.Errorf("schemas: event id %q is not <session>/<seq>", id)
	}
	return session, seq, CheckSession(session)
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+len(sep):], true
}

// headerMap is a NATS header with the percent-encoding of the NATS protocol binding.
type headerMap map[string][]string

// set leaves out empty values: CloudEvents has no empty attributes.
func (h headerMap) set(key, value string) {
	if value != "" {
		h[key] = []string{EncodeHeaderValue(value)}
	}
}

func (h headerMap) get(key string) string {
	if v := h[key]; len(v) > 0 {
		if s, err := DecodeHeaderValue(v[0]); err == nil {
			return s
		}
	}
	return ""
}

const upperHex = "0123456789ABCDEF"

// EncodeHeaderValue percent-encodes what the binding wants encoded: space, double quote, percent and everything outside
// printable ASCII, byte for byte of its UTF-8.
func EncodeHeaderValue(s string) string {
	plain := true
	for i := 0; i < len(s); i++ {
		if mustEncode(s[i]) {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	out := make([]byte, 0, len(s)+16)
	for i := 0; i < len(s); i++ {
		if c := s[i]; mustEncode(c) {
			out = append(out, '%', upperHex[c>>4], upperHex[c&15])
		} else {
			out = append(out, c)
		}
	}
	return string(out)
}

func mustEncode(c byte) bool { return c <= ' ' || c >= 0x7f || c == '"' || c == '%' }

var errPercent = errors.New("schemas: broken percent-encoding in a header")

// DecodeHeaderValue undoes [EncodeHeaderValue]. Bytes that should have been encoded pass as they are.
func DecodeHeaderValue(s string) (string, error) {
	if !strings.Contains(s, "%") {
		return s, nil
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out = append(out, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", errPercent
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", errPercent
		}
		out = append(out, byte(c))
		i += 2
	}
	return string(out), nil
}
