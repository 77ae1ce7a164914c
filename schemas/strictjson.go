package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// maxDepth bounds how deeply a payload from outside may nest.
const maxDepth = 256

// decodeStrict reads one JSON value into the types that jsonschema takes. It refuses what two readers may understand
// differently: invalid UTF-8, something after the value, a member that is there twice, a number that no float64 can
// hold. Its errors quote nothing of the value.
func decodeStrict(payload []byte) (any, error) {
	if !utf8.Valid(payload) {
		return nil, errors.New("not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.UseNumber()
	v, err := strictValue(dec, 0)
	if err != nil {
		return nil, plainSyntax(err, dec.InputOffset())
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("something follows the value at byte %d", dec.InputOffset())
	}
	return v, nil
}

func strictValue(dec *json.Decoder, depth int) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		if depth == maxDepth {
			return nil, fmt.Errorf("nested more than %d deep", maxDepth)
		}
		if t == '{' {
			return strictObject(dec, depth+1)
		}
		return strictArray(dec, depth+1)
	case json.Number:
		return strictNumber(t)
	}
	return token, nil
}

func strictObject(dec *json.Decoder, depth int) (any, error) {
	object := make(map[string]any)
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name := token.(string) // the decoder lets nothing else be a name
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("member %.40q is there twice", name)
		}
		if object[name], err = strictValue(dec, depth); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token() // the closing brace
	return object, err
}

func strictArray(dec *json.Decoder, depth int) (any, error) {
	array := []any{}
	for dec.More() {
		v, err := strictValue(dec, depth)
		if err != nil {
			return nil, err
		}
		array = append(array, v)
	}
	_, err := dec.Token() // the closing bracket
	return array, err
}

// strictNumber keeps a number's digits, so that large integers stay exact. One with many digits or an exponent is
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

// plainSyntax takes the quoted character out of a decoder's error.
func plainSyntax(err error, offset int64) error {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("not JSON: broken or incomplete near byte " + strconv.FormatInt(offset, 10))
	}
	return err
}
