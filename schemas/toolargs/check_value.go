package toolargs

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// typeCheck compiles type. A name that is not a JSON Schema type matches every value.
func (c *compiler) typeCheck(n *node, schema *value) {
	v := schema.member("type")
	if v == nil {
		return
	}
	names, message := []string{v.str}, "must be "+v.str
	if v.kind == kindArray {
		list, ok := stringsOf(v)
		if !ok {
			return
		}
		names, message = list, "must be either "+strings.Join(list, " or ")
	} else if v.kind != kindString {
		return
	}
	var types []string // without repetitions: so they are few
	for _, t := range names {
		if _, known := typeKinds[t]; known {
			if !slices.Contains(types, t) {
				types = append(types, t)
			}
		} else if !foreignType(t) {
			return
		}
	}
	n.add(kindAny, func(w *walker, v *value, r *report, _ *scope) bool {
		for _, t := range types {
			if v.isA(t) && !math.IsInf(v.num, 0) {
				return true
			}
		}
		return r.add(w, message)
	})
}

// foreignType reports whether the reference implementation knows the type as one of JavaScript's own, which no JSON
// value has.
func foreignType(typ string) bool {
	switch typ {
	case "bigint", "constructor", "function", "symbol", "undefined", "void":
		return true
	}
	return false
}

// stringChecks compiles the keywords for strings.
func (c *compiler) stringChecks(n *node, schema *value) {
	if limit, ok := numberAt(schema, "minLength"); ok {
		n.add(kindString, func(w *walker, v *value, r *report, _ *scope) bool {
			return w.length(v) >= limit ||
				r.add(w, "must not have fewer than "+formatNumber(limit)+" characters")
		})
	}
	if limit, ok := numberAt(schema, "maxLength"); ok {
		n.add(kindString, func(w *walker, v *value, r *report, _ *scope) bool {
			return w.length(v) <= limit ||
				r.add(w, "must not have more than "+formatNumber(limit)+" characters")
		})
	}
	if name, ok := stringAt(schema, "format"); ok && formats[name] != nil {
		isFormat, steps := formats[name], formatSteps
		if name == "regex" {
			steps *= 32 // the pattern has to be compiled, and a few bytes may come to thousands of instructions
			c.slow = true
		}
		n.add(kindString, func(w *walker, v *value, r *report, _ *scope) bool {
			return w.spend(len(v.str)*steps) && isFormat(v.str) || r.add(w, `must match format "`+name+`"`)
		})
	}
	if pattern, ok := stringAt(schema, "pattern"); ok {
		re := c.regexp(pattern)
		n.add(kindString, func(w *walker, v *value, r *report, _ *scope) bool {
			return re.match(w.budget, v.str) || r.add(w, `must match pattern "`+pattern+`"`)
		})
	}
}

// formatSteps is the number of steps for each byte of a string with a format: most formats are patterns.
const formatSteps = 8

// length returns the number of characters of a string.
func (w *walker) length(v *value) float64 {
	w.spend(len(v.str) / 32)
	return float64(utf8.RuneCountInString(v.str))
}

// numberChecks compiles the keywords for numbers.
func (c *compiler) numberChecks(n *node, schema *value) {
	for _, k := range []struct {
		keyword, text string
		fits          func(f, limit float64) bool
	}{
		{"exclusiveMinimum", "must be > ", func(f, limit float64) bool { return f > limit }},
		{"exclusiveMaximum", "must be < ", func(f, limit float64) bool { return f < limit }},
		{"minimum", "must be >= ", func(f, limit float64) bool { return f >= limit }},
		{"maximum", "must be <= ", func(f, limit float64) bool { return f <= limit }},
		{"multipleOf", "must be multiple of ", isMultiple},
	} {
		limit, ok := numberAt(schema, k.keyword)
		if !ok {
			continue
		}
		n.add(kindNumber, func(w *walker, v *value, r *report, _ *scope) bool {
			return math.IsInf(v.num, 0) || k.fits(v.num, limit) || r.add(w, k.text+formatNumber(limit))
		})
	}
}

// valueChecks compiles const and enum.
func (c *compiler) valueChecks(n *node, schema *value) {
	if want := schema.member("const"); want != nil {
		n.add(kindAny, func(w *walker, v *value, r *report, _ *scope) bool {
			return v.equal(w.budget, want) || r.add(w, "must be equal to constant")
		})
	}
	if list := schema.member("enum"); list != nil && list.kind == kindArray {
		n.add(kindAny, func(w *walker, v *value, r *report, _ *scope) bool {
			for i := range list.elems {
				if v.equal(w.budget, &list.elems[i].val) {
					return true
				}
			}
			return r.add(w, "must be equal to one of the allowed values")
		})
	}
}
