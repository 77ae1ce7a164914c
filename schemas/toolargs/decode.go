package toolargs

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Decode decodes arguments into the value that into points to, like [json.Unmarshal], but exactly as they were
// validated and approved: a member is decoded only into the field with its exact name, not one in another case, and of
// a repeated name only the last value counts.
func Decode(args json.RawMessage, into any) error {
	v, err := parseJSON(args)
	if err != nil {
		return fmt.Errorf("arguments are not JSON: %w", err)
	}
	dropOthers(&v, reflect.TypeOf(into))
	return json.Unmarshal(appendJSON(make([]byte, 0, len(args)+16), &v), into)
}

var readers = []reflect.Type{reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()}

// dropOthers drops the members that are no fields of the structs in t.
func dropOthers(v *value, t reflect.Type) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || v.kind&(kindArray|kindObject) == 0 {
		return
	}
	for _, reader := range readers {
		if reflect.PointerTo(t).Implements(reader) {
			return // it has its own UnmarshalJSON
		}
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		for i := range v.elems {
			dropOthers(&v.elems[i].val, t.Elem())
		}
	case reflect.Struct:
		if v.kind != kindObject {
			return
		}
		names := map[string]reflect.Type{}
		fieldsOf(t, names, map[reflect.Type]bool{})
		kept := v.elems[:0]
		for _, m := range v.elems {
			if field, ok := names[m.key]; ok {
				dropOthers(&m.val, field)
				kept = append(kept, m)
			}
		}
		v.elems = kept
	}
}

// fieldsOf adds the fields of a struct by their names in JSON. Those of embedded structs come after its own.
func fieldsOf(t reflect.Type, names map[string]reflect.Type, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	var embedded []reflect.Type
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case tag == "-":
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			embedded = append(embedded, inner)
		case f.IsExported():
			if name == "" {
				name = f.Name
			}
			if _, known := names[name]; !known {
				names[name] = f.Type
			}
		}
	}
	for _, inner := range embedded {
		fieldsOf(inner, names, seen)
	}
}
