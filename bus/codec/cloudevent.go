package codec

import (
	"errors"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
)

// Mode is how a message carries a CloudEvent.
type Mode int

// The modes. Batches are not supported.
const (
	ModeNone       Mode = iota // no CloudEvent
	ModeBinary                 // attributes in headers, data as payload
	ModeStructured             // attributes and data as JSON in the payload
)

// ErrNotCloudEvent is returned for a message that does not claim to be a CloudEvent.
var ErrNotCloudEvent = errors.New("codec: not a CloudEvent")

const (
	attributePrefix = "ce-"
	structuredJSON  = "application/cloudevents+json"
)

// EncodeCloudEvent encodes an event as a message in binary mode, with percent-encoded values and without a subject. The
// message shares the event's data. It returns an error if the CloudEvents SDK finds the event invalid.
func EncodeCloudEvent(e event.Event) (*nats.Msg, error) {
	if err := checkCloudEvent(e); err != nil {
		return nil, fmt.Errorf("codec: encode CloudEvent: %w", err)
	}
	c := e.Context.AsV1()
	msg := &nats.Msg{Header: make(nats.Header, 8+len(c.Extensions)), Data: e.Data()}
	set := func(name, value string) {
		if value != "" {
			msg.Header[attributePrefix+name] = []string{schemas.EncodeHeaderValue(value)}
		}
	}
	set("specversion", c.GetSpecVersion())
	set("id", c.GetID())
	set("source", c.GetSource())
	set("type", c.GetType())
	set("subject", c.GetSubject())
	set("datacontenttype", c.GetDataContentType())
	set("dataschema", c.GetDataSchema())
	if t := c.GetTime(); !t.IsZero() {
		set("time", types.FormatTime(t))
	}
	for name, value := range c.Extensions {
		s, err := types.Format(value)
		if err != nil {
			return nil, fmt.Errorf("codec: encode CloudEvent %s: extension %s: %w", c.ID, name, err)
		}
		set(name, s)
	}
	return msg, nil
}

// DecodeCloudEvent decodes the CloudEvent of a message. The mode is structured if the Content-Type is that of a
// structured CloudEvent, binary if there is a header ce-specversion, and structured if the payload is a JSON object
// with a member specversion, in this order. Any other message returns [ErrNotCloudEvent] and [ModeNone]. It returns an
// error if the SDK finds the event invalid. The event may share data.
func DecodeCloudEvent(header nats.Header, data []byte) (event.Event, Mode, error) {
	media, _, _ := strings.Cut(first(header, schemas.HeaderContentType), ";")
	media = strings.ToLower(strings.TrimSpace(media))
	switch {
	case media == structuredJSON:
		e, err := decodeStructured(data)
		return e, ModeStructured, err
	case strings.HasPrefix(media, "application/cloudevents"):
		return event.Event{}, ModeStructured, fmt.Errorf("content type %.60q is not supported, only %s is", media,
			structuredJSON)
	case len(header[schemas.HeaderSpecVersion]) > 0:
		e, err := decodeBinary(header, data)
		return e, ModeBinary, err
	case looksStructured(data): // the SDK's own NATS client sends no Content-Type
		e, err := decodeStructured(data)
		return e, ModeStructured, err
	}
	return event.Event{}, ModeNone, ErrNotCloudEvent
}

func decodeBinary(header nats.Header, data []byte) (event.Event, error) {
	e := event.New()
	for _, key := range slices.Sorted(maps.Keys(header)) {
		name, ok := strings.CutPrefix(key, attributePrefix)
		if !ok {
			continue
		}
		value, err := attributeValue(header[key])
		if err != nil {
			return event.Event{}, fmt.Errorf("header %.60q: %w", key, err)
		}
		if err := setAttribute(&e, name, value); err != nil {
			return event.Event{}, fmt.Errorf("header %.60q: %w", key, err)
		}
	}
	if media := first(header, schemas.HeaderContentType); media != "" && e.DataContentType() == "" {
		e.SetDataContentType(media)
	}
	if len(data) > 0 {
		e.DataEncoded = data
	}
	return e, checkCloudEvent(e)
}

func attributeValue(values []string) (string, error) {
	if len(values) != 1 {
		return "", fmt.Errorf("has %d values", len(values))
	}
	value, err := schemas.DecodeHeaderValue(values[0])
	if err != nil {
		return "", err
	}
	if value == "" || !utf8.ValidString(value) {
		return "", errors.New("is empty or not UTF-8")
	}
	return value, nil
}

// setAttribute sets an attribute or extension by its name. The SDK keeps an error about a value that it cannot parse,
// and reports it when the event is validated.
func setAttribute(e *event.Event, name, value string) error {
	switch name {
	case "specversion":
		if value != schemas.SpecVersion {
			return fmt.Errorf("specversion %.20q is not %s", value, schemas.SpecVersion)
		}
	case "id":
		e.Context.(*event.EventContextV1).ID = value // SetID would trim it
	case "source":
		e.SetSource(value)
	case "type":
		e.SetType(value)
	case "subject":
		e.SetSubject(value)
	case "dataschema":
		e.SetDataSchema(value)
	case "datacontenttype":
		e.SetDataContentType(value)
	case "time":
		t, err := time.Parse(time.RFC3339Nano, value)
		if err != nil {
			return fmt.Errorf("time %.40q is not RFC 3339", value)
		}
		e.SetTime(t)
	default:
		return setExtension(e, name, value)
	}
	return nil
}

func setExtension(e *event.Event, name string, value any) error {
	if strings.ToLower(name) != name {
		return fmt.Errorf("extension %.60q is not lower case", name)
	}
	return e.Context.SetExtension(name, value)
}

// checkCloudEvent validates an event with the SDK. The error lists the SDK's findings in a fixed order.
func checkCloudEvent(e event.Event) error {
	err := e.Validate()
	var findings event.ValidationError
	if !errors.As(err, &findings) {
		return err
	}
	var text []string
	for _, name := range slices.Sorted(maps.Keys(findings)) {
		text = append(text, fmt.Sprintf("%s: %v", name, findings[name]))
	}
	return errors.New(strings.Join(text, "; "))
}

// isJSON reports whether a data content type is JSON. An empty one is, because JSON is the default.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json"))
}

func first(header nats.Header, key string) string {
	if v := header[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// ToCloudEvent converts an event of a session's log to an event of the SDK.
func ToCloudEvent(e schemas.Event) (event.Event, error) {
	header, payload, err := schemas.EncodeEvent(e)
	if err != nil {
		return event.Event{}, err
	}
	return decodeBinary(header, payload)
}

// UpdateToCloudEvent converts an update to an event of the SDK.
func UpdateToCloudEvent(u schemas.Update) (event.Event, error) {
	header, payload, err := schemas.EncodeUpdate(u)
	if err != nil {
		return event.Event{}, err
	}
	return decodeBinary(header, payload)
}
