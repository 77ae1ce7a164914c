package agui

import (
	"runtime"
	"strings"
	"testing"
)

func TestSameJSON(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxCompared)
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{`{"a":1,"b":[]}`, `{ "b": [], "a": 1.0 }`, true},
		{`{"a":1}`, `{"a":2}`, false},
		{`{"a":1`, `{"a":1`, false},
		{`{"a":"` + long + `","b":[1,2]}`, "{ \"a\" : \"" + long + "\",\n\t\"b\" : [1, 2]} ", true},
		{`{"a":"` + long + ` \" c"}`, `{"a": "` + long + ` \" c"}`, true},
		{`{"a":"` + long + ` \"  c"}`, `{"a": "` + long + ` \" c"}`, false},
		{`{"a":"` + long + `"}`, `{"a":"` + long + `"`, false},
		{`{}`, `{"a":"` + long + `"}`, false},
	} {
		if sameJSON(tt.a, tt.b) != tt.same || sameJSON(tt.b, tt.a) != tt.same {
			t.Errorf("%.40q and %.40q: same %t", tt.a, tt.b, !tt.same)
		}
	}
}

// A model's arguments of millions of values are not decoded for every client. The test is not parallel: it looks at
// what the process allocates.
func TestLargeArgumentsAreNotDecoded(t *testing.T) {
	large := `{"x":[` + strings.Repeat("{},", 1_000_000) + `{}]}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	same := sameJSON(`{}`, large) || !sameJSON(large, large+" ")
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; same || took > 20<<20 {
		t.Errorf("same: %t, %d MiB", same, took>>20)
	}
}
