package schemas_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
)

// What all decoders promise, whatever they are given: no panic, and what they accept is written again as something they
// read as the same.

func FuzzDecodeMessage(f *testing.F) {
	addExamples(f, "messages", func(_ string, raw []byte) { f.Add(raw) })
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := schemas.DecodeMessage(raw)
		if err != nil {
			return
		}
		again(t, m, func(raw []byte) (any, error) { return schemas.DecodeMessage(raw) })
	})
}

func FuzzDecodeEventData(f *testing.F) {
	fuzzNamed(f, "events", func(name string, raw []byte) (any, error) {
		return schemas.DecodeEventData(schemas.EventType(name), raw)
	})
}

func FuzzDecodeUpdateData(f *testing.F) {
	fuzzNamed(f, "updates", func(name string, raw []byte) (any, error) {
		return schemas.DecodeUpdateData(schemas.EventType(name), raw)
	})
}

func FuzzDecodeCommandData(f *testing.F) {
	fuzzNamed(f, "commands", func(name string, raw []byte) (any, error) {
		return schemas.DecodeCommandData(schemas.CommandKind(name), raw)
	})
}

// fuzzNamed is about what is decoded by its name.
func fuzzNamed(f *testing.F, folder string, decode func(name string, raw []byte) (any, error)) {
	addExamples(f, folder, func(name string, raw []byte) { f.Add(name, raw) })
	f.Fuzz(func(t *testing.T, name string, raw []byte) {
		named := func(raw []byte) (any, error) { return decode(name, raw) }
		if v, err := named(raw); err == nil {
			again(t, v, named)
		}
	})
}

// What is taken from outside keeps to its schema as the Go value it has become, not only as the text it was.
func FuzzParseCommand(f *testing.F) {
	addExamples(f, "commands", func(name string, raw []byte) { f.Add(name, raw) })
	f.Fuzz(func(t *testing.T, name string, raw []byte) {
		kind := schemas.CommandKind(name)
		id, data, err := schemas.ParseCommand(kind, raw)
		if err != nil {
			var invalid *schemas.ValidationError
			var unknown *schemas.UnknownTypeError
			if id != "" || data != nil || !errors.As(err, &invalid) && !errors.As(err, &unknown) {
				t.Fatalf("%q, %v, %v", id, data, err)
			}
			return
		}
		if err := schemas.ValidateCommand(kind, marshal(t, data)); err != nil {
			t.Fatalf("decoded: %v", err)
		}
	})
}

func FuzzPlainText(f *testing.F) {
	f.Add("prompt", []byte("list the files"))
	f.Add("abort", []byte(" "))
	f.Fuzz(func(t *testing.T, name string, raw []byte) {
		kind := schemas.CommandKind(name)
		data, err := schemas.PlainText(kind, raw)
		if err != nil {
			return
		}
		if err := schemas.ValidateCommand(kind, marshal(t, data)); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzStreamEvent(f *testing.F) {
	for _, raw := range []string{
		`{"type":"start"}`, `{"type":"text_delta","contentIndex":1,"delta":"a"}`, `{"type":"done","reason":"stop"}`,
		`{"type":"toolcall_start","contentIndex":3,"id":"a","toolName":"ls"}`,
		`{"type":"toolcall_end","contentIndex":3,"toolCall":{"type":"toolCall","id":"a","name":"ls","arguments":{"z":1}}}`,
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		decode := func(raw []byte) (any, error) {
			var e schemas.StreamEvent
			err := json.Unmarshal(raw, &e)
			return e, err
		}
		if e, err := decode(raw); err == nil {
			again(t, e, decode)
		}
	})
}

func FuzzDecodeEvent(f *testing.F) {
	header, payload, err := schemas.EncodeEvent(sampleEvent())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(flatten(header), payload)
	f.Add("ce-specversion:1.0\nce-id:s1/1\nce-source:%41\nce-type:dev.loopbus.turn_start.v1\n"+
		"ce-time:0000-01-01T00:00:00+01:00", []byte(`{}`))
	f.Fuzz(func(t *testing.T, headers string, payload []byte) {
		first, err := schemas.DecodeEvent(unflatten(headers), payload)
		if err != nil {
			return
		}
		header, payload, err := schemas.EncodeEvent(first)
		if err != nil {
			t.Fatal(err)
		}
		second, err := schemas.DecodeEvent(header, payload)
		if err != nil {
			t.Fatal(err)
		}
		sameEncoding(t, first.Data, second.Data)
		first.Data, second.Data = nil, nil
		if d := cmp.Diff(first, second); d != "" {
			t.Fatalf("(-first +second):\n%s", d)
		}
	})
}

func FuzzDecodeUpdate(f *testing.F) {
	header, payload, err := schemas.EncodeUpdate(sampleUpdate())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(flatten(header), payload)
	f.Fuzz(func(t *testing.T, headers string, payload []byte) {
		first, err := schemas.DecodeUpdate(unflatten(headers), payload)
		if err != nil {
			return
		}
		header, payload, err := schemas.EncodeUpdate(first)
		if err != nil {
			t.Fatal(err)
		}
		second, err := schemas.DecodeUpdate(header, payload)
		if err != nil {
			t.Fatal(err)
		}
		sameEncoding(t, first.Data, second.Data)
		first.Data, second.Data = nil, nil
		if d := cmp.Diff(first, second); d != "" {
			t.Fatalf("(-first +second):\n%s", d)
		}
	})
}

func FuzzParseSubject(f *testing.F) {
	for _, subject := range []string{
		"agent.cmd.s1.prompt", "agent.cmd.7.s1.prompt", "agent.evt.s1", "agent.live.s1.update", "agent.tool.ls.s1.c7",
		"agent.cancel.s1.c7", "agent.dead.AGENT_CMD._", "agent.cmd.>.", "agent.cmd",
	} {
		f.Add(subject)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		s := schemas.Subjects{}
		var built string
		if session, kind, err := s.ParseCommand(subject); err == nil {
			built = s.Command(session, kind)
			if strings.Count(subject, ".") == 4 { // as stored
				_, subject, _ = strings.Cut(subject, ".cmd.")
				_, subject, _ = strings.Cut(subject, ".")
				subject = "agent.cmd." + subject
			}
		} else if session, err := s.ParseEvent(subject); err == nil {
			built = s.Event(session)
		} else if session, update, err := s.ParseLive(subject); err == nil {
			built = s.LiveEvent(session)
			if update {
				built = s.LiveUpdate(session)
			}
		} else if queue, session, call, err := s.ParseTool(subject); err == nil {
			built = s.Tool(queue.Name(), session, call)
		} else if session, call, err := s.ParseCancel(subject); err == nil {
			built = s.Cancel(session, call)
		} else if stream, session, err := s.ParseDead(subject); err == nil {
			built = s.Dead(stream, session)
		} else {
			return
		}
		if built != subject {
			t.Fatalf("%q is parsed as %q", subject, built)
		}
	})
}

func FuzzHeaderValue(f *testing.F) {
	for _, v := range []string{"", "abc", `Zürich "x" 100%`, "%C3%BC", "%", "%zz", "\xff"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v string) {
		encoded := schemas.EncodeHeaderValue(v)
		if strings.ContainsFunc(encoded, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' }) {
			t.Fatalf("%q is encoded as %q", v, encoded)
		}
		if back, err := schemas.DecodeHeaderValue(encoded); err != nil || back != v {
			t.Fatalf("%q comes back as %q, %v", v, back, err)
		}
		if plain, err := schemas.DecodeHeaderValue(v); err == nil {
			if back, err := schemas.DecodeHeaderValue(schemas.EncodeHeaderValue(plain)); err != nil || back != plain {
				t.Fatalf("%q comes back as %q, %v", plain, back, err)
			}
		}
	})
}

// FuzzDecodeStrict holds the strict reader against the standard one: it accepts nothing that the other does not.
func FuzzDecodeStrict(f *testing.F) {
	for _, raw := range []string{`{"a":[1,2.5,-1e3,true,null,"x"],"b":{}}`, `[`, `{"a":1,"a":2}`, `1e999`, `{} {}`,
		`{"a"}`, `[1,]`} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := schemas.DecodeStrict(raw)
		if err != nil {
			return
		}
		var want any
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatalf("accepted what is not JSON: %v", err)
		}
		var plain any
		if err := json.Unmarshal(marshal(t, got), &plain); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, plain); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}

// again writes v, reads it and writes it again: both texts are the same.
func again(t *testing.T, v any, decode func([]byte) (any, error)) {
	t.Helper()
	first := marshal(t, v)
	v, err := decode(first)
	if err != nil {
		t.Fatalf("written as %s: %v", first, err)
	}
	if second := marshal(t, v); !bytes.Equal(first, second) {
		t.Fatalf("written as\n%s\nand then as\n%s", first, second)
	}
}

func sameEncoding(t *testing.T, a, b any) {
	t.Helper()
	if x, y := marshal(t, a), marshal(t, b); !bytes.Equal(x, y) {
		t.Fatalf("written as\n%s\nand then as\n%s", x, y)
	}
}

func flatten(header map[string][]string) string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(header)) {
		lines = append(lines, key+":"+header[key][0])
	}
	return strings.Join(lines, "\n")
}

func unflatten(headers string) map[string][]string {
	header := make(map[string][]string)
	for line := range strings.Lines(headers) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		header[key] = append(header[key], value)
	}
	return header
}

// addExamples passes every example of an area with the name of its schema.
func addExamples(f *testing.F, area string, add func(name string, raw []byte)) {
	f.Helper()
	files, err := filepath.Glob("testdata/" + area + "/*/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("examples of %s: %d, %v", area, len(files), err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		add(filepath.Base(filepath.Dir(file)), raw)
	}
}
