//go:build unix

package deploy_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// used is what an expression in PromQL names.
type used struct {
	metrics []string            // in order, without repetition
	labels  map[string][]string // of a metric, that it is selected by
	groups  []string            // labels that are grouped by
}

// tokens of PromQL: a string, a name, a number or duration, or a sign.
var token = regexp.MustCompile(
	`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[A-Za-z_:][A-Za-z0-9_:]*|\$\{?\w+\}?|[0-9][0-9a-z.]*|[=!<>]=|[=!]~|\S`)

var (
	name     = regexp.MustCompile(`^[A-Za-z_:][A-Za-z0-9_:]*$`)
	grouping = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}
	words    = []string{"and", "or", "unless", "bool", "offset", "atan2", "inf", "nan"}
)

// uses reads an expression. It is no parser: that of Prometheus brings 300 modules into the graph. It knows what a name
// is by what stands around it: a function or an aggregation is called, a label stands in braces or behind by.
func uses(expr string) (u used, err error) {
	u.labels = map[string][]string{}
	all := token.FindAllString(expr, -1)
	next := func(i int) string {
		if i+1 < len(all) {
			return all[i+1]
		}
		return ""
	}
	last := ""
	for i := 0; i < len(all); i++ {
		switch t := all[i]; {
		case t == "{":
			for i++; i < len(all) && all[i] != "}"; i++ {
				if name.MatchString(all[i]) {
					u.labels[last] = append(u.labels[last], all[i])
				}
			}
			if i == len(all) {
				return u, fmt.Errorf("a brace is not closed in %s", expr)
			}
		case slices.Contains(grouping, t):
			if next(i) != "(" {
				continue
			}
			for i += 2; i < len(all) && all[i] != ")"; i++ {
				if name.MatchString(all[i]) {
					u.groups = append(u.groups, all[i])
				}
			}
		case !name.MatchString(t) || slices.Contains(words, strings.ToLower(t)):
		case next(i) == "(" || slices.Contains(grouping, next(i)): // a function, an aggregation
		default:
			last = t
			if !slices.Contains(u.metrics, t) {
				u.metrics = append(u.metrics, t)
			}
		}
	}
	return u, nil
}

func TestTheReaderOfExpressions(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]used{
		`sum by (le, tool) (rate(a_bucket{x="by (b)", y=~"$p"}[$__rate_interval]))`: {[]string{"a_bucket"},
			map[string][]string{"a_bucket": {"x", "y"}}, []string{"le", "tool"}},
		`sum(a) by (x) > 0.5 * max(b offset 5m) and on() c`: {[]string{"a", "b", "c"}, map[string][]string{}, []string{"x"}},
		`histogram_quantile(0.95, a) unless b == bool 1`:    {[]string{"a", "b"}, map[string][]string{}, nil},
		`absent(a{s="x"}) or min_over_time(a:b[1h])`: {[]string{"a", "a:b"}, map[string][]string{"a": {"s"}},
			nil},
	} {
		got, err := uses(expr)
		if d := cmp.Diff(want, got, cmp.AllowUnexported(used{})); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", expr, err, d)
		}
	}
	if _, err := uses(`a{b="c"`); err == nil {
		t.Error("an open brace is not noticed")
	}
}
