package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// maxDepth bounds how deeply a payload from outside may nest.
const maxDepth = 256

// decodeStrict decodes one JSON value into the types that jsonschema accepts. It refuses what two readers may interpret
// differently: invalid UTF-8, text after the value, a repeated member, a number that no float64 can hold. Its errors
// quote nothing of the value.
func decodeStrict(payload []byte) (any, error) {
	return (&strictReader{most: maxDepth}).read(payload, nil)
}

// decodeStored is decodeStrict for the data of an event, by its schema. Parts that the schema does not describe are
// JSON of models and tools (a call's arguments, a result's details), which a log has as it came: there a name may be
// repeated, the last value counts, and a number may be too large. The value may be nested as deep as [Commit.Add]
// allows.
func decodeStored(payload []byte, schema *jsonschema.Schema) (any, error) {
	return (&strictReader{most: maxNestedData, stored: true}).read(payload, []described{{schema, true}})
}

// A strictReader decodes one JSON value. Each of its methods gets the schemas that describe the value; JSON of models
// and tools has none, or one that does not describe its parts.
type strictReader struct {
	dec    *json.Decoder
	most   int // levels
	stored bool
}

func (r *strictReader) read(payload []byte, by []described) (any, error) {
	if !utf8.Valid(payload) {
		return nil, errors.New("not valid UTF-8")
	}
	r.dec = json.NewDecoder(bytes.NewReader(payload))
	r.dec.UseNumber()
	v, err := r.value(0, by)
	if err != nil {
		return nil, plainSyntax(err, r.dec.InputOffset())
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("something follows the value at byte %d", r.dec.InputOffset())
	}
	return v, nil
}

func (r *strictReader) value(depth int, by []described) (any, error) {
	token, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		if depth == r.most {
			return nil, fmt.Errorf("nested more than %d deep", r.most)
		}
		if t == '{' {
			return r.object(depth+1, by)
		}
		return r.array(depth+1, by)
	case json.Number:
		v, err := strictNumber(t)
		if err != nil && r.stored && !slices.ContainsFunc(allOf(by), described.number) {
			return math.MaxFloat64, nil // no schema validates this number
		}
		return v, err
	}
	return token, nil
}

func (r *strictReader) object(depth int, by []described) (any, error) {
	by = membersOf(by)
	object := make(map[string]any)
	for r.dec.More() {
		token, err := r.dec.Token()
		if err != nil {
			return nil, err
		}
		name := token.(string) // the decoder accepts no other name
		if _, twice := object[name]; twice && (!r.stored || len(by) > 0) {
			return nil, fmt.Errorf("member %.40q is there twice", name)
		}
		if object[name], err = r.value(depth, memberOf(by, name)); err != nil {
			return nil, err
		}
	}
	_, err := r.dec.Token() // the closing brace
	return object, err
}

func (r *strictReader) array(depth int, by []described) (any, error) {
	by = itemsOf(by)
	array := []any{}
	for r.dec.More() {
		v, err := r.value(depth, by)
		if err != nil {
			return nil, err
		}
		array = append(array, v)
	}
	_, err := r.dec.Token() // the closing bracket
	return array, err
}

// strictNumber keeps a number's digits, so that large integers stay exact. A number with many digits or an exponent is
// rounded: jsonschema computes exactly, which takes long for 1e-999999 and panics for 1e-9999999.
func strictNumber(n json.Number) (any, error) {
	f, err := n.Float64()
	if err != nil {
		return nil, errors.New("a number is out of range")
	}
	if len(n) > 24 || bytes.ContainsAny([]byte(n), "eE") {
		return f, nil
	}
	return n, nil
}

// plainSyntax removes the quoted character from a decoder's error.
func plainSyntax(err error, offset int64) error {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("not JSON: broken or incomplete near byte " + strconv.FormatInt(offset, 10))
	}
	return err
}
