package toolargs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/schemas/toolargs"
)

// allocated returns how many MiB f allocates. Tests that use it are not parallel.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) >> 20
}

// What a validation remembers is bounded by what its arguments take: hundreds of small ones are checked at once.
func TestSmallArgumentsRememberLittle(t *testing.T) {
	twice := func(n int) string {
		return list(n, func(i int) string { return fmt.Sprintf(`{"$ref":"#/d/%d"},{"$ref":"#/d/%[1]d"}`, i) })
	}
	schemas := func(n int) string { return list(n, func(int) string { return `{"properties":{"":{}}}` }) }
	deep := nested(60, `{"properties":{"a":{},"b":{}},"allOf":[`, `{}`, `]}`)
	for about, tt := range map[string]struct {
		schema string
		values int
	}{
		"many references": {`{"unevaluatedProperties":false,"properties":{"a":{"items":{"allOf":` + twice(2000) + `}}},"d":` +
			schemas(2000) + `}`, 180},
		"few references": {`{"unevaluatedProperties":false,"properties":{"a":{"items":{"allOf":` + twice(200) + `}}},"d":` +
			schemas(200) + `}`, 1800},
		"scopes in scopes": {`{"properties":{"a":{"items":` + deep + `}},"unevaluatedProperties":false}`, 9000},
	} {
		schema := compile(t, tt.schema)
		args := `{"a":[` + strings.TrimSuffix(strings.Repeat(`{"a":0,"b":0},`, tt.values), ",") + `]}`
		took := allocated(func() {
			_, err := validate(t, schema, args)
			if err == nil || !strings.Contains(err.Error(), "too much memory") {
				t.Errorf("%s: %.200v", about, err)
			}
		})
		if most := 30 + 2*uint64(len(args)>>10); took > most {
			t.Errorf("%s: %d MiB were allocated for %d KiB, more than %d", about, took, len(args)>>10, most)
		}
	}
}

// A class of characters takes kilobytes, however short it is. A schema has a limit for all of them, at which its
// compilation ends.
func TestPatternsOfASchemaTakeBoundedMemory(t *testing.T) {
	parameters := func(n int, pattern string) json.RawMessage {
		return json.RawMessage(`{"allOf":` + list(n, func(i int) string {
			return fmt.Sprintf(`{"pattern":"%s%d"}`, pattern, i)
		}) + `}`)
	}
	if took := allocated(func() {
		for pattern, want := range map[string]string{
			strings.Repeat(`\\p{L}`, 200):                     "65536 instructions", // most of which count for the classes
			strings.Repeat(`\\p{L}`, 600):                     "too many classes of characters",
			`[^ ` + strings.Repeat(`\\P{L}\\p{L}`, 290) + `]`: "too many classes of characters",
		} {
			if _, err := toolargs.Compile(parameters(30, pattern)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.20s…: %.200v", pattern, err)
			}
		}
	}); took > 200 {
		t.Errorf("%d MiB were allocated", took)
	}
	for _, ordinary := range []string{
		`^[\\p{L}\\p{N} .'-]{1,500}$`, `^\\p{Lu}\\p{L}*( \\p{Lu}\\p{L}*){0,20}$`, `.{1000}`,
	} {
		if _, err := toolargs.Compile(parameters(4, ordinary)); err != nil {
			t.Errorf("%s: %v", ordinary, err)
		}
	}
}

// Matching and compiling a large pattern takes megabytes, and one that goes back may take a second, however small the
// text is. Few do it at once, and nobody else waits for them. The test takes their room, so it is not parallel.
func TestSlowChecksTakeTurns(t *testing.T) {
	pattern := "^" + strings.Repeat("(?:.?){1000}", 20) + "b$"
	release := toolargs.TakeSlowRoom()
	slow := []string{`{"pattern":"` + pattern + `"}`, `{"pattern":"(?=a)b"}`, `{"items":{"format":"regex"}}`}
	for _, parameters := range slow {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := compile(t, parameters).Validate(ctx, "f", json.RawMessage(`"b"`))
		if cancel(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%.40s while others have the room: %.200v", parameters, err)
		}
	}
	for _, length := range []int{1, 250_000} {
		if _, err := validate(t, compile(t, `{"pattern":"b$"}`), `"`+strings.Repeat("b", length)+`"`); err != nil {
			t.Errorf("an ordinary check of %d bytes: %v", length, err)
		}
	}
	release()
	if _, err := validate(t, compile(t, slow[0]), `"b"`); err != nil {
		t.Errorf("afterwards: %.200v", err)
	}
}

// A list of types has each type once, however long it is: it is looked at for each value.
func TestManyTypesAreFew(t *testing.T) {
	t.Parallel()
	schema := compile(t, `{"patternProperties":{"":{"items":{"type":[`+strings.Repeat(`"null",`, 18_000)+`"number"]}}}}`)
	args := `{"a":[` + strings.TrimSuffix(strings.Repeat("0,", 130_000), ",") + `]}`
	begun := time.Now()
	if _, err := validate(t, schema, args); err != nil {
		t.Errorf("%.200v", err)
	}
	if took := time.Since(begun); took > tooLong/10 {
		t.Errorf("it took %s", took)
	}
}
