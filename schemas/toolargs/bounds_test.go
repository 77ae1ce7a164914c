package toolargs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
)

// tooLong is when a validation counts as one that does not end: the work of the longest one takes some seconds, and a
// machine that is busy with other things may take many times as long over it.
const tooLong = 5 * time.Minute

// chain is a schema of n definitions each of which refers to the next k times under a keyword, and the last is a
// string.
func chain(n, k int, keyword string) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range n {
		refs := strings.Repeat(fmt.Sprintf(`{"$ref":"#/$defs/d%d"},`, i+1), k)
		fmt.Fprintf(&b, `"d%d":{"%s":[%s]},`, i, keyword, strings.TrimSuffix(refs, ","))
	}
	fmt.Fprintf(&b, `"d%d":{"properties":{"s":{"type":"string"}}}}}`, n)
	return b.String()
}

// list is a JSON array of n items.
func list(n int, item func(i int) string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = item(i)
	}
	return "[" + strings.Join(items, ",") + "]"
}

// object is a JSON object of n members.
func object(n int, value string) string {
	members := list(n, func(i int) string { return fmt.Sprintf(`"k%d":%s`, i, value) })
	return "{" + members[1:len(members)-1] + "}"
}

func nested(n int, before, innermost, after string) string {
	return strings.Repeat(before, n) + innermost + strings.Repeat(after, n)
}

// References that refer twice to the next, forty times, are 2^40 ways to the last.
func TestRepeatedReferencesAreFollowedOnce(t *testing.T) {
	t.Parallel()
	for _, keyword := range []string{"allOf", "anyOf"} {
		schema := compile(t, chain(40, 2, keyword))
		if _, err := validate(t, schema, `{"s":"x"}`); err != nil {
			t.Errorf("%s: %v", keyword, err)
		}
		_, err := validate(t, schema, `{"s":5}`)
		if err == nil || !strings.Contains(err.Error(), "  - s: must be string\n") {
			t.Errorf("%s: %v", keyword, err)
		}
	}
	contains := compile(t, nested(60, `{"minContains":1,"maxContains":5,"contains":`, `{"type":"string"}`, `}`))
	if _, err := validate(t, contains, nested(60, "[", `"x"`, "]")); err != nil {
		t.Error(err)
	}
	if _, err := validate(t, contains, nested(60, "[", `5`, "]")); err == nil {
		t.Error("accepted")
	}
}

// validate ends a validation that does not end by itself, and fails the test.
func validate(t *testing.T, schema *toolargs.Schema, args string) (json.RawMessage, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), tooLong)
	defer cancel()
	got, err := schema.Validate(ctx, "f", json.RawMessage(args))
	if ctx.Err() != nil {
		t.Fatalf("it does not end: %.200v", err)
	}
	return got, err
}

const tooMuchWork = "  - root: checking the arguments takes more than %d steps\n"

func TestWorkIsBounded(t *testing.T) {
	t.Parallel()
	const many = 30_000
	all := func(n int, schema string) string {
		return `{"allOf":` + list(n, func(int) string { return schema }) + `}`
	}
	names := list(10_000, func(i int) string { return fmt.Sprintf(`"k%d"`, i) })
	unions := list(1_500, func(i int) string { return fmt.Sprintf(`{"minItems":1000000,"maxItems":%d}`, i) })
	expressions := list(1000, func(i int) string { return fmt.Sprintf(`"%d%s"`, i, strings.Repeat(".{1000}", 60)) })
	dear := []string{"unions", "patterns", "lengths", "expressions", "evaluated"} // steps: fewer show the same
	for name, tt := range map[string]struct{ parameters, args string }{
		"unique items": {`{"uniqueItems":true}`, list(many, func(i int) string { return fmt.Sprintf("[%d]", i) })},
		"required":     {`{"required":` + names + `}`, object(many, "1")},
		"properties":   {`{"properties":` + object(8_000, `{}`) + `}`, object(many, "1")},
		"coerced":      {`{"type":"object","properties":` + object(2_000, `{"type":"string"}`) + `}`, object(many, "1")},
		"unions":       {`{"anyOf":` + unions + `}`, list(many, func(int) string { return "{}" })},
		"patterns":     {`{"patternProperties":` + object(4_000, `{}`) + `}`, object(many, "1")},
		"enum":         {`{"enum":[` + object(10_000, "1") + `]}`, object(10_000, "1")},
		"lengths":      {all(5_000, `{"minLength":1}`), `"` + strings.Repeat("x", 1<<20) + `"`},
		"formats":      {all(3_000, `{"format":"uri"}`), `"` + strings.Repeat("x:", 1<<19) + `"`},
		"expressions":  {`{"items":{"format":"regex"}}`, expressions},
		"evaluated": {`{"unevaluatedProperties":false,` + all(2_000, `{"additionalProperties":{}}`)[1:],
			object(many, "1")},
		"items": {all(4_000, `{"items":{}}`), list(many, func(int) string { return "5" })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schema, steps := compile(t, tt.parameters), 10_000_000
			if slices.Contains(dear, name) {
				steps = 1_000_000
				schema.Limit(steps)
			}
			got, err := validate(t, schema, tt.args)
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf(tooMuchWork, steps)) {
				t.Errorf("got %.40s, %.200v", got, err)
			}
		})
	}
}

func TestPatternsAreBounded(t *testing.T) {
	t.Parallel()
	mega := strings.Repeat("a", 1<<20)
	for pattern, text := range map[string]string{
		`(?=a)^(a+)+$`:                   strings.Repeat("a", 64) + "!",
		`(?=a)(a+)+$`:                    mega + "!",
		`(?=(a+)+b)`:                     mega,
		`^((a+)\\2?)+\\1b`:               mega,
		`(a*)*(\\1*)*b\\1`:               mega,
		`^(((a)|b)*)*\\3c`:               mega[:1<<15],
		`(?=a)(a?){1,2000}(a?){1,2000}b`: strings.Repeat("a", 2000),
		`(x?a?b?){300}(x?a?){400}c`:      mega, // Go's engine
	} {
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			_, err := validate(t, compileQuick(t, `{"properties":{"s":{"pattern":"`+pattern+`"}}}`), `{"s":"`+text+`"}`)
			if err == nil || !strings.Contains(err.Error(),
				"  - root: checking the arguments takes more than 50ms for the pattern ") {
				t.Errorf("%.200v", err)
			}
		})
	}
	// Go's engine does in no time what would take the other one for ever. It has less than a second, by the clock.
	linear := compile(t, `{"properties":{"s":{"pattern":"(a+)+$"}}}`)
	_, err := validate(t, linear, `{"s":"`+mega[:1<<16]+`!"}`)
	if err == nil || !strings.Contains(err.Error(), "  - s: must match pattern") {
		t.Errorf("%.200v", err)
	}
}

// The time that patterns have by themselves, of either engine.
func TestPatternsHaveASecond(t *testing.T) {
	suite.LongForm(t)
	t.Parallel()
	text := strings.Repeat("a", 1<<20)
	for _, pattern := range []string{`(?=(a+)+b)`, `(x?a?b?){300}(x?a?){400}c`} {
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			_, err := validate(t, compile(t, `{"properties":{"s":{"pattern":"`+pattern+`"}}}`), `{"s":"`+text+`"}`)
			if err == nil || !strings.Contains(err.Error(),
				"  - root: checking the arguments takes more than 1s for the pattern ") {
				t.Errorf("%.200v", err)
			}
		})
	}
}

// compileQuick is compile of a schema whose patterns end sooner than they do by themselves.
func compileQuick(t *testing.T, parameters string) *toolargs.Schema {
	t.Helper()
	schema, err := toolargs.CompileWithin(json.RawMessage(parameters), 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// What is announced is checked at once, whatever its patterns would take to match, and however they are nested.
func TestHopelessPatternsAreCheckedAtOnce(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{
		`(?=a)^(a+)+$`, `(?=(a+)+b)`, `^((a+)\\2?)+\\1b`, `(a*)*(\\1*)*b\\1`, `(?=a)(a|a)*b`, `^(?!(a*)*b)`,
		`(?=a)(?:a{1000}){1000}(?:a{1000}){1000}b`, `(x?a?b?){300}(x?a?){400}c`,
		strings.Repeat("(", 500) + "a" + strings.Repeat("+)", 500),
		`(?=a)` + strings.Repeat("(", 500) + "a" + strings.Repeat("+)*", 500),
		`(?=a)` + strings.Repeat("(", 1300) + "a" + strings.Repeat(")*", 1300),
		`(?=a)` + strings.Repeat("(", 60) + strings.Repeat("(a)", 1200) + strings.Repeat(")*", 60),
		strings.Repeat("(a{1000}", 100) + strings.Repeat("){1000}", 100),
		`(?=a)` + strings.Repeat("(a{1000}", 100) + strings.Repeat("){1000}", 100),
	} {
		for _, parameters := range []string{
			`{"properties":{"s":{"pattern":"` + pattern + `"}}}`, `{"patternProperties":{"` + pattern + `":{}}}`,
			`{"allOf":` + list(20, func(int) string { return `{"pattern":"` + pattern + `"}` }) + `}`,
		} {
			start := time.Now()
			err := toolargs.Check(json.RawMessage(parameters))
			if took := time.Since(start); took > tooLong {
				t.Errorf("%.80s: took %v, %.200v", parameters, took, err)
			}
		}
	}
}

// Many at once are over as soon as they may take, one after the other where they need memory.
func TestPatternsAreBoundedTogether(t *testing.T) {
	t.Parallel()
	schema := compileQuick(t, `{"properties":{"s":{"pattern":"(?=(a+)+b)"}}}`)
	for i := range 4 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			if _, err := validate(t, schema, `{"s":"`+strings.Repeat("a", 1<<(3*i+11))+`"}`); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func TestQuotedArgumentsAreBounded(t *testing.T) {
	t.Parallel()
	deep := nested(900, "[", list(100_000, func(int) string { return "1" }), "]")
	_, err := validate(t, compile(t, `{"type":"object"}`), deep)
	if err == nil || len(err.Error()) > 300_000 || !strings.HasSuffix(err.Error(), " [cut]") {
		t.Errorf("%.200v", err)
	}
}

// Whoever waits for a validation may stop to: while it walks, while it tries a pattern of either engine. One that is
// over at once is not ended: what an aborted run makes of its calls does not depend on when they are checked.
func TestContextEndsValidation(t *testing.T) {
	t.Parallel()
	errStop := errors.New("stopped")
	text := `{"s":"` + strings.Repeat("a", 1<<20) + `"}`
	for name, tt := range map[string]struct{ parameters, args string }{
		"walk":      {`{"uniqueItems":true}`, list(30_000, func(i int) string { return fmt.Sprintf("[%d]", i) })},
		"linear":    {`{"properties":{"s":{"pattern":"(x?a?b?){300}(x?a?){400}c"}}}`, text},
		"lookahead": {`{"properties":{"s":{"pattern":"(?=(a+)+b)"}}}`, text},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errStop)
			got, err := compile(t, tt.parameters).Validate(ctx, "f", json.RawMessage(tt.args))
			if !errors.Is(err, errStop) {
				t.Errorf("got %.40s, %.200v", got, err)
			}
			if _, err := compile(t, `{}`).Validate(ctx, "f", json.RawMessage(`{}`)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	unions := nested(60, `{"anyOf":[`, `{"enum":`+list(20_000, func(int) string { return "1" })+`}`, `]}`)
	patterns := list(80, func(i int) string { return fmt.Sprintf(`{"pattern":"%d.{1000}"}`, i) })
	for name, tt := range map[string]struct{ parameters, want string }{
		"large":          {`{"enum":["` + strings.Repeat("x", 128<<10) + `"]}`, "more than 131072"},
		"deep":           {nested(201, `{"not":`, "{}", "}"), "nested deeper than 200"},
		"endless":        {`{"anyOf":[{"$ref":"#"}]}`, "refers to itself without end"},
		"endless twice":  {`{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}`, "more than 100000 steps"},
		"unions":         {unions, "more than 100000 values"},
		"long pattern":   {`{"pattern":"` + strings.Repeat("x", 5<<10) + `"}`, "has 5120 bytes, more than 4096"},
		"large pattern":  {`{"pattern":"` + strings.Repeat(".{1000}", 100) + `"}`, "more than 65536"},
		"large patterns": {`{"allOf":` + patterns + `}`, "more than 65536 instructions"},
		"broken":         {`{"pattern":"("}`, "missing closing )"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := toolargs.Check(json.RawMessage(tt.parameters)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %.300v, want %q", err, tt.want)
			}
		})
	}
	for _, parameters := range []string{``, `{}`, `false`, `{"required":["a"]}`, chain(40, 2, "allOf")} {
		if err := toolargs.Check(json.RawMessage(parameters)); err != nil {
			t.Errorf("%s: %v", parameters, err)
		}
	}
}

// The names in an error come from a model: they cost memory in proportion to what is reported, not to the members of
// unions that report it. The test is not parallel: it looks at what the process allocates.
func TestLongNamesInErrors(t *testing.T) {
	consts := list(3000, func(i int) string { return fmt.Sprintf(`{"const":"x%d"}`, i) })
	names := list(8, func(int) string { return `{"propertyNames":false}` })
	for about, tt := range map[string]struct{ schema, key string }{
		"a union":          {`{"additionalProperties":{"anyOf":` + consts + `}}`, "k"},
		"a union, escaped": {`{"additionalProperties":{"oneOf":` + consts + `}}`, "/"},
		"a union in items": {`{"additionalProperties":{"items":{"anyOf":` + consts + `}}}`, "k"},
		"names":            {`{"allOf":` + names + `}`, "ä"},
	} {
		schema := compile(t, tt.schema)
		args := `{"` + strings.Repeat(tt.key, 4<<20/len(tt.key)) + `":[1,2,3]}`
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := validate(t, schema, args)
		runtime.ReadMemStats(&after)
		switch took := after.TotalAlloc - before.TotalAlloc; {
		case err == nil:
			t.Errorf("%s: accepted", about)
		case took > 200<<20:
			t.Errorf("%s: %d MiB were allocated", about, took>>20)
		case len(err.Error()) > 512<<10 || !utf8.ValidString(err.Error()):
			t.Errorf("%s: an error of %d bytes", about, len(err.Error()))
		}
	}
}

// What is remembered of values that were visited counts, too. The test is not parallel, as the one above.
func TestRememberedScopes(t *testing.T) {
	for _, n := range []int{500, 4000} {
		schema := compile(t, `{"unevaluatedProperties":false,"properties":{"b":{"$ref":"#/$defs/p"},`+
			`"a":{"items":{"not":{"$ref":"#/$defs/p"}}}},"$defs":{"p":{"minProperties":1,"properties":`+object(n, "{}")+`}}}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := validate(t, schema, `{"a":[`+strings.TrimSuffix(strings.Repeat("{},", 65_000), ",")+`]}`)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 500<<20 || err == nil ||
			!strings.Contains(err.Error(), "steps") {
			t.Errorf("%d properties: %d MiB were allocated, %.200v", n, took>>20, err)
		}
	}
}

// A list of many names that are missing is not put together for each of them.
func TestManyMissingDependencies(t *testing.T) {
	t.Parallel()
	others := list(12_000, func(i int) string { return fmt.Sprintf(`"n%d"`, i) })
	schema := compile(t, `{"dependentRequired":{"a":`+others+`}}`)
	begun := time.Now()
	_, err := validate(t, schema, `{"a":1}`)
	if err == nil || strings.Count(err.Error(), "\n  - ") != 8 || len(err.Error()) > 512<<10 {
		t.Errorf("%.1000v", err)
	}
	if took := time.Since(begun); took > tooLong/10 {
		t.Errorf("it took %s", took)
	}
}

// What a schema says of properties counts for an object that has none. Recording what was evaluated counts, too.
func TestEmptyObjectsCount(t *testing.T) {
	t.Parallel()
	properties := object(9000, `{}`)
	names := list(9000, func(i int) string { return fmt.Sprintf(`"k%d"`, i) })
	empty := `[` + strings.TrimSuffix(strings.Repeat("{},", 130_000), ",") + `]`
	for about, schema := range map[string]string{
		"properties":  `{"items":{"properties":` + properties + `}}`,
		"required":    `{"items":{"not":{"required":` + names + `}}}`,
		"evaluated":   `{"items":{"properties":` + object(500, `{}`) + `},"unevaluatedProperties":false}`,
		"dependent":   `{"items":{"dependentRequired":` + object(9000, `["x"]`) + `}}`,
		"coercion":    `{"items":{"properties":` + object(4000, `{"type":"null"}`) + `}}`,
		"all of them": `{"items":{"allOf":[{"properties":` + properties + `}]},"unevaluatedItems":false}`,
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			s := compile(t, schema)
			s.Limit(1_000_000)
			begun := time.Now()
			_, err := validate(t, s, empty)
			if took := time.Since(begun); took > tooLong/10 {
				t.Errorf("it took %s", took)
			}
			if about != "required" && (err == nil || !strings.Contains(err.Error(), "steps")) {
				t.Errorf("%.200v", err)
			}
		})
	}
}

// However deep unions are nested, and whatever a text contains that a tool has parsed, a check takes memory in
// proportion to what was sent. The test is not parallel: it looks at what the process allocates.
func TestCopiesAndValuesAreBounded(t *testing.T) {
	zeros := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("0,", n), ",") + "]" }
	allocated := func(check func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		check()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	deep := compile(t, `{"type":"object","properties":{"a":`+nested(38, `{"anyOf":[`, `{"type":"integer"}`, `]}`)+`}}`)
	if took := allocated(func() {
		if _, err := validate(t, deep, `{"a":`+zeros(130_000)+`}`); err == nil || !strings.Contains(err.Error(), "copies") {
			t.Errorf("%.200v", err)
		}
	}); took > 300<<20 {
		t.Errorf("unions in unions: %d MiB", took>>20)
	}
	if _, err := validate(t, deep, `{"a":5}`); err != nil {
		t.Errorf("a value that is not copied: %v", err)
	}
	steps := []schemas.ArgumentRewrite{{Op: schemas.RewriteParse, To: "a"}}
	args := json.RawMessage(`{"a":"` + zeros(1_900_000) + `"}`)
	if took := allocated(func() {
		if got := toolargs.Rewrite(t.Context(), steps, args); string(got) != string(args) {
			t.Error("a text with too many values was parsed")
		}
	}); took > 200<<20 {
		t.Errorf("a text: %d MiB", took>>20)
	}
	if got := toolargs.Rewrite(t.Context(), steps, json.RawMessage(`{"a":"[1]"}`)); string(got) != `{"a":[1]}` {
		t.Errorf("a text: %s", got)
	}
	_, err := validate(t, compile(t, `{}`), zeros(300_000))
	if err == nil || !strings.Contains(err.Error(), "more than 262144 values") {
		t.Errorf("%.200v", err)
	}
}

// Checks of large arguments take turns, and nobody else waits for them.
func TestLargeChecksTakeTurns(t *testing.T) {
	schema := compile(t, `{"items":{"type":"integer"}}`)
	large := "[" + strings.TrimSuffix(strings.Repeat("0,", 200_000), ",") + "]"
	release := toolargs.TakeLargeRoom()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := schema.Validate(ctx, "f", json.RawMessage(large))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while others have the room: %.200v", err)
	}
	if _, err := validate(t, schema, `[1]`); err != nil {
		t.Errorf("a small one: %v", err)
	}
	release()
	if _, err := validate(t, schema, large); err != nil {
		t.Errorf("afterwards: %.200v", err)
	}
}

// Matches of many short names count as much as they take.
func TestShortMatchesCount(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"patternProperties":{"^`+strings.Repeat("(?:.?){1000}", 20)+`b$":{}}}`)
	s.Limit(1_000_000)
	_, err := validate(t, s, object(20_000, "1"))
	if err == nil || !strings.Contains(err.Error(), "steps") {
		t.Errorf("%.200v", err)
	}
}

// An error is in proportion to the arguments that it quotes, however they are printed.
func TestSmallArgumentsMakeSmallErrors(t *testing.T) {
	t.Parallel()
	args := `{"path":` + nested(900, "[", "", "]") + `}`
	_, err := validate(t, compile(t, `{"properties":{"path":{"type":"string"}}}`), args)
	if err == nil || len(err.Error()) > 17*len(args)+8<<10 || !strings.HasSuffix(err.Error(), " [cut]") {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}
