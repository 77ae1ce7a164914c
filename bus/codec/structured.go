package codec

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cloudevents/sdk-go/v2/event"
)

// looksStructured reports whether the payload is a JSON object with a member specversion.
func looksStructured(data []byte) bool {
	if !bytes.Contains(data, []byte(`"specversion"`)) {
		return false
	}
	found := false
	eachMember(data, func(name string, _ json.RawMessage) { found = found || name == "specversion" })
	return found
}

// decodeStructured decodes the JSON format. It does not use the SDK's decoder for input from clients: that one panics
// on some payloads (a data_base64 that is not a string), and accepts some that are not JSON.
func decodeStructured(data []byte) (event.Event, error) {
	members, n := make(map[string]json.RawMessage), 0
	object := eachMember(data, func(name string, value json.RawMessage) {
		members[name] = value
		n++
	})
	switch {
	case !object:
		return event.Event{}, errors.New("payload is not a JSON object")
	case n > maxMembers:
		return event.Event{}, fmt.Errorf("payload has more than %d members", maxMembers)
	}
	if members["specversion"] == nil {
		return event.Event{}, errors.New("specversion: REQUIRED")
	}
	e := event.New()
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if name == "data" || name == "data_base64" || string(members[name]) == "null" {
			continue
		}
		if err := setMember(&e, name, members[name]); err != nil {
			return event.Event{}, fmt.Errorf("member %.60q: %w", name, err)
		}
	}
	if err := setData(&e, members["data"], members["data_base64"]); err != nil {
		return event.Event{}, err
	}
	return e, checkCloudEvent(e)
}

// setMember sets an attribute or an extension. An attribute must be a string; an extension may also be a boolean or an
// integer.
func setMember(e *event.Event, name string, raw json.RawMessage) error {
	var value any
	if raw[0] != '{' && raw[0] != '[' { // which may have many values
		_ = json.Unmarshal(raw, &value)
	}
	switch v := value.(type) {
	case string:
		if v == "" {
			return errors.New("is empty")
		}
		return setAttribute(e, name, v)
	case bool:
		return setExtension(e, name, v)
	case float64:
		if v != math.Trunc(v) || math.Abs(v) > math.MaxInt32 {
			return errors.New("is not a 32 bit integer")
		}
		return setExtension(e, name, int32(v))
	}
	return errors.New("is neither string, boolean nor integer")
}

// setData sets the payload: JSON data unchanged, and the text of a JSON string if the content type is not JSON.
func setData(e *event.Event, data, encoded json.RawMessage) error {
	switch {
	case data != nil && encoded != nil:
		return errors.New("data and data_base64 exclude each other")
	case encoded != nil:
		var text string
		if err := json.Unmarshal(encoded, &text); err != nil {
			return errors.New("data_base64 is not a string")
		}
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return errors.New("data_base64 is not base64")
		}
		e.DataEncoded, e.DataBase64 = b, true
	case data != nil && !isJSON(e.DataContentType()):
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return fmt.Errorf("data is not a string, as its content type %.60q wants", e.DataContentType())
		}
		e.DataEncoded = []byte(text)
	case data != nil && string(data) != "null":
		e.DataEncoded = data
	}
	return nil
}
