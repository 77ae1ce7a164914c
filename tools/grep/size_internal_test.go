package grep

import (
	"runtime"
	"strings"
	"testing"
)

// Eight calls at once, as many as a worker has slots by default, took gigabytes for patterns of some KiB.
func TestWhatAPatternMayCost(t *testing.T) {
	const most = 64 << 20 // bytes that one pattern allocates in sum; a third of them is in use at the same time
	for name, c := range map[string]struct {
		pattern string
		limit   string // in the error
	}{
		"classes":               {strings.Repeat(`\w`, maxRewritten/51), ""},
		"classes in a class":    {"[" + strings.Repeat(`\w`, maxRewritten/51) + "]", ""},
		"properties":            {strings.Repeat(`\pL`, maxPattern/3), ""},
		"classes and negations": {strings.Repeat(`[^\w]\W`, maxRewritten/110), ""},
		"alternatives":          {strings.Repeat(`\pL|a|`, maxPattern/6), ""},
		"a literal":             {strings.Repeat("x", maxPattern), ""},
		"a whole line":          {"^" + strings.Repeat(`\pL`, 900) + "$", ""},
		"a class of 1000":       {strings.Repeat(`\w{1000}`, 15), ""},
		"nested":                {strings.Repeat("(", 450) + strings.Repeat(")*", 450), ""},
		"a large range":         {strings.Repeat(`[B-\x{1E942}]`, 50), ""},
		"many classes":          {strings.Repeat(`\w`, maxPattern/2), "16384"},
		"a long one":            {strings.Repeat(`\w`, 20_000), "4096"},
		"a long literal":        {strings.Repeat("x", maxPattern+1), "4096"},
		"repetitions":           {strings.Repeat(`(a?){1000}`, 100), "16384"},
		"repeated alternatives": {strings.Repeat(`(\w{30}){30}|`, 40), "16384"},
		"repetitions or more":   {strings.Repeat(`(abcdefgh){1000,}`, 10), "16384"},
		"parts to leave out":    {strings.Repeat(`a{0,1000}`, 10), "16384"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := compile(arguments{Pattern: c.pattern, IgnoreCase: true})
			runtime.ReadMemStats(&after)
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > most {
				t.Errorf("%d MiB", allocated>>20)
			}
			if (err == nil) != (c.limit == "") || err != nil && !strings.Contains(err.Error(), c.limit) {
				t.Errorf("%.200v", err)
			}
		})
	}
}
