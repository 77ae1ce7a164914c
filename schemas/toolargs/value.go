package toolargs

import (
	"slices"
	"strconv"
)

// kind is the kind of a JSON value. Each is one bit, so that a set of kinds is a mask.
type kind uint8

const (
	kindNull kind = 1 << iota
	kindFalse
	kindTrue
	kindNumber
	kindString
	kindArray
	kindObject

	kindBool = kindFalse | kindTrue
	kindAny  = kindNull | kindBool | kindNumber | kindString | kindArray | kindObject
)

// value is a JSON value that keeps what encoding/json drops: the order of members and the literals of numbers.
type value struct {
	kind  kind
	num   float64 // of a number
	str   string  // of a string its text, of a number its literal
	elems []elem  // of an array and an object
}

// elem is an item of an array, or a member of an object.
type elem struct {
	key string
	val value
}

// find returns the member of an object by name, or nil.
func (v *value) find(name string) *elem {
	if v.kind != kindObject {
		return nil
	}
	for i := range v.elems {
		if v.elems[i].key == name {
			return &v.elems[i]
		}
	}
	return nil
}

// member returns the value of a member by name, or nil.
func (v *value) member(name string) *value {
	if m := v.find(name); m != nil {
		return &m.val
	}
	return nil
}

// typeKinds maps the types of JSON Schema to kinds of values; an integer must also be integral.
var typeKinds = map[string]kind{
	"null": kindNull, "boolean": kindBool, "number": kindNumber, "integer": kindNumber,
	"string": kindString, "array": kindArray, "object": kindObject,
}

// isA reports whether the value is of the named type; false for an unknown name.
func (v *value) isA(typ string) bool {
	return typeKinds[typ]&v.kind != 0 && (typ != "integer" || isInteger(v.num))
}

// clone copies everything that coercion could change. It stops when the budget ends.
func (v *value) clone(b *budget) value {
	c := *v
	if b.copied(len(v.elems)) && b.spend(1+len(v.elems)) && len(v.elems) > 0 {
		c.elems = make([]elem, len(v.elems))
		for i := range v.elems {
			c.elems[i] = elem{key: v.elems[i].key, val: v.elems[i].val.clone(b)}
		}
	}
	return c
}

// equal compares as JSON Schema does: numbers by value, objects regardless of order. It is false if the budget ends.
func (v *value) equal(b *budget, w *value) bool {
	if !b.spend(1+len(v.str)/64) || v.kind != w.kind || len(v.elems) != len(w.elems) {
		return false
	}
	switch v.kind {
	case kindNumber:
		return v.num == w.num
	case kindString:
		return v.str == w.str
	case kindArray:
		for i := range v.elems {
			if !v.elems[i].val.equal(b, &w.elems[i].val) {
				return false
			}
		}
	case kindObject:
		for i := range v.elems {
			other := w.member(v.elems[i].key)
			if other == nil || !b.spend(1+len(w.elems)) || !v.elems[i].val.equal(b, other) {
				return false
			}
		}
	}
	return true
}

// settleMembers orders members like a JavaScript object: a repeated name has its last value in the place of the first,
// and names that are array indexes come first, in numerical order.
func settleMembers(members []elem) []elem {
	if len(members) > 1 {
		members = dropRepeated(members)
	}
	if len(members) < 2 || !slices.ContainsFunc(members, func(e elem) bool { return isIndex(e.key) }) {
		return members
	}
	slices.SortStableFunc(members, func(a, b elem) int { return indexRank(a.key) - indexRank(b.key) })
	return members
}

func dropRepeated(members []elem) []elem {
	const few = 16 // up to here a scan is cheaper than a map
	if len(members) <= few {
		out := members[:0]
		for _, m := range members {
			if i := slices.IndexFunc(out, func(e elem) bool { return e.key == m.key }); i >= 0 {
				out[i] = m
			} else {
				out = append(out, m)
			}
		}
		return out
	}
	at := make(map[string]int, len(members))
	out := members[:0]
	for _, m := range members {
		if i, ok := at[m.key]; ok {
			out[i] = m
			continue
		}
		at[m.key] = len(out)
		out = append(out, m)
	}
	return out
}

// maxIndex is the largest array index of ECMAScript, 2^32-2.
const maxIndex = 1<<32 - 2

func isIndex(key string) bool { return indexRank(key) <= maxIndex }

// indexRank returns the array index that a name represents, or more than any index.
func indexRank(key string) int {
	if key == "" || key[0] < '0' || key[0] > '9' || len(key) > 10 || key[0] == '0' && len(key) > 1 {
		return maxIndex + 1
	}
	n, err := strconv.ParseUint(key, 10, 64)
	if err != nil || n > maxIndex {
		return maxIndex + 1
	}
	return int(n)
}
