package tools

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/loopbus/loopbus/schemas"
)

// parametersOf derives the JSON Schema of a P: a tree without references, dialect and id, which not all vendors
// accept. It also returns the object of the fields' defaults, nil if there are none.
func parametersOf[P any]() (parameters, defaults json.RawMessage, err error) {
	t := reflect.TypeFor[P]()
	if t.Kind() != reflect.Struct {
		return nil, nil, fmt.Errorf("parameters are a %s, not a struct", t)
	}
	if err := describable(t, nil, "parameters"); err != nil {
		return nil, nil, err
	}
	reflector := jsonschema.Reflector{Anonymous: true, DoNotReference: true, AllowAdditionalProperties: true,
		Mapper: asText}
	schema := reflector.ReflectFromType(t)
	schema.Version = ""
	tidy(schema)
	if defaults, err = takeDefaults(schema); err != nil {
		return nil, nil, err
	}
	if defaults != nil {
		if err := json.Unmarshal(defaults, new(P)); err != nil {
			return nil, nil, fmt.Errorf("defaults %s: %w", defaults, err)
		}
	}
	parameters, err = schemas.Marshal(schema)
	return parameters, defaults, err
}

var (
	textType = reflect.TypeFor[encoding.TextUnmarshaler]()
	jsonType = reflect.TypeFor[json.Unmarshaler]()
	ownType  = reflect.TypeFor[interface{ JSONSchema() *jsonschema.Schema }]()
)

// asText describes types that decode from text as a string. The library knows a format for times.
func asText(t reflect.Type) *jsonschema.Schema {
	if readsItself(t, textType) && !readsItself(t, jsonType) && !t.Implements(ownType) {
		return &jsonschema.Schema{Type: "string"}
	}
	return nil
}

func readsItself(t, how reflect.Type) bool {
	return t.Implements(how) || reflect.PointerTo(t).Implements(how)
}

// describable returns an error that names the first part of a type that has no schema, or an infinite one. outer are
// the types around it.
func describable(t reflect.Type, outer []reflect.Type, at string) error {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case slices.Contains(outer, t):
		return fmt.Errorf("%s: %s contains itself, which a schema without references cannot express", at, t)
	case t.Implements(ownType), t == reflect.TypeFor[time.Time](), t == reflect.TypeFor[json.RawMessage]():
		return nil
	case readsItself(t, jsonType):
		return fmt.Errorf("%s: %s has its own UnmarshalJSON; give it a method JSONSchema() *jsonschema.Schema", at, t)
	case readsItself(t, textType):
		return nil
	}
	outer = append(slices.Clip(outer), t)
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array: // a pointer to a pointer, here
		return describable(t.Elem(), outer, at)
	case reflect.Map:
		if k := t.Key().Kind(); k != reflect.String {
			return fmt.Errorf("%s: keys of %s are not strings", at, t)
		}
		return describable(t.Elem(), outer, at)
	case reflect.Struct:
		return describableFields(t, outer, at)
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer, reflect.Uintptr:
		return fmt.Errorf("%s: a %s cannot be decoded from JSON", at, t)
	default:
		return nil
	}
}

func describableFields(t reflect.Type, outer []reflect.Type, at string) error {
	for i := range t.NumField() {
		f := t.Field(i)
		if (!f.IsExported() && !f.Anonymous) || f.Tag.Get("json") == "-" {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		if err := describable(f.Type, outer, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

// anything replaces empty schemas: the library writes an empty one as true, which vendors refuse.
const anything = "Any JSON value"

// tidy replaces empty schemas by explicit ones.
func tidy(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if reflect.DeepEqual(s, &jsonschema.Schema{}) {
		s.Description = anything
	}
	if s.Properties != nil {
		for p := s.Properties.Oldest(); p != nil; p = p.Next() {
			tidy(p.Value)
		}
	}
	tidy(s.Items)
	tidy(s.AdditionalProperties)
	for _, one := range slices.Concat(s.OneOf, s.AnyOf, s.AllOf) {
		tidy(one)
	}
}

// takeDefaults removes and returns the defaults of the schema's own members, which are therefore optional.
func takeDefaults(s *jsonschema.Schema) (json.RawMessage, error) {
	defaults := map[string]any{}
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		if p.Value.Default != nil {
			defaults[p.Key] = p.Value.Default
		}
	}
	s.Required = slices.DeleteFunc(s.Required, func(name string) bool { return defaults[name] != nil })
	if len(defaults) == 0 {
		return nil, nil
	}
	return schemas.Marshal(defaults)
}
