package sessionfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

// An object is a JSON object whose members keep their order and their text.
type object []member

type member struct {
	name  string
	value json.RawMessage
}

var errNoObject = errors.New("not a JSON object")

// parseObject parses an object. A repeated member has its last value.
func parseObject(text []byte) (object, error) {
	if !json.Valid(text) {
		return nil, errors.New("not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errNoObject
	}
	var o object
	at := map[string]int{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		name, _ := t.(string)
		if i, twice := at[name]; twice {
			o[i].value = value
			continue
		}
		at[name] = len(o)
		o = append(o, member{name, value})
	}
	return o, nil
}

// get returns a member's JSON, nil if there is none.
func (o object) get(name string) json.RawMessage {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// text returns a member that is a text; ok is false for any other value.
func (o object) text(name string) (s string, ok bool) {
	raw := o.get(name)
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return s, json.Unmarshal(raw, &s) == nil
}

// set sets a member in its place, or adds it at the end.
func (o *object) set(name string, value json.RawMessage) {
	for i := range *o {
		if (*o)[i].name == name {
			(*o)[i].value = value
			return
		}
	}
	*o = append(*o, member{name, value})
}

// add appends a member with a Go value, unless that is nil.
func (o *object) add(name string, value any) {
	switch v := value.(type) {
	case nil:
		return
	case json.RawMessage:
		if len(v) > 0 {
			o.set(name, v)
		}
		return
	}
	raw, err := schemas.Marshal(value)
	if err != nil {
		raw = []byte("null")
	}
	o.set(name, raw)
}

func (o *object) remove(name string) {
	*o = slices.DeleteFunc(*o, func(m member) bool { return m.name == name })
}

// MarshalJSON writes the members in order.
func (o object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := schemas.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		b = append(append(b, name...), ':')
		b = append(b, m.value...)
	}
	return append(b, '}'), nil
}

// line returns the object on one line.
func (o object) line() []byte {
	raw, _ := o.MarshalJSON()
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}
