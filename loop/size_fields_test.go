package loop_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/loop"
)

// largeTexts are the names of members that may be large, wherever they are in a state. The others are ids, names and
// settings, which are bounded.
var largeTexts = []string{"SystemPrompt", "Text", "Summary", "CustomInstructions", "Details", "Args", "Arguments",
	"Data", "Reason", "Error", "ErrorMessage", "Failure", "Failed", "Description", "Parameters", "Label", "Raw"}

// bounded are those of them that are words of ours.
var bounded = []string{"Turn.Reason", "Last.Reason", "Abort.Reason", "Start.Reason", "Parent.Reason",
	"Removed[].Reason", "Tools[].Label"}

// TestBytesCountsEachText puts a large text into each member of a state in turn that may have one: Bytes counts it. A
// session whose size counts less than it takes finds room where there is none.
func TestBytesCountsEachText(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	large, n := strings.Repeat("x", size), 0
	texts(reflect.TypeFor[loop.State](), "", nil, func(v reflect.Value) reflect.Value { return v },
		func(path string, fill func(s *loop.State, text string)) {
			is := func(end string) bool { return strings.HasSuffix(path, "."+end) }
			if !slices.ContainsFunc(largeTexts, is) || slices.ContainsFunc(bounded, is) {
				return
			}
			var s loop.State
			fill(&s, large)
			if n++; s.Bytes() < size {
				t.Errorf("State%s counts %d bytes", path, s.Bytes())
			}
		})
	if n < 50 {
		t.Errorf("%d texts were found", n)
	}
}

// texts calls found with each text of a type, its path, and how to set it. reach returns the value of the type in a
// state, and makes what is on the way.
func texts(typ reflect.Type, path string, in []reflect.Type, reach func(reflect.Value) reflect.Value,
	found func(string, func(*loop.State, string))) {
	switch {
	case typ.Kind() == reflect.String, typ == reflect.TypeFor[json.RawMessage]():
		found(path, func(s *loop.State, text string) {
			reach(reflect.ValueOf(s).Elem()).Set(reflect.ValueOf(text).Convert(typ))
		})
	case typ.Kind() == reflect.Pointer:
		texts(typ.Elem(), path, in, func(v reflect.Value) reflect.Value {
			p := reach(v)
			if p.IsNil() {
				p.Set(reflect.New(typ.Elem()))
			}
			return p.Elem()
		}, found)
	case typ.Kind() == reflect.Slice:
		texts(typ.Elem(), path+"[]", in, func(v reflect.Value) reflect.Value {
			list := reach(v)
			list.Set(reflect.MakeSlice(typ, 1, 1))
			return list.Index(0)
		}, found)
	case typ.Kind() == reflect.Struct && !slices.Contains(in, typ):
		for i := range typ.NumField() {
			if f := typ.Field(i); f.IsExported() {
				texts(f.Type, path+"."+f.Name, append(slices.Clone(in), typ), func(v reflect.Value) reflect.Value {
					return reach(v).Field(i)
				}, found)
			}
		}
	}
}
