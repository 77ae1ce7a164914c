package toolargs

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

// Rewrite changes a model's arguments to the names and shapes that a tool expects, by the steps of its definition. It
// returns args itself if no step applied, or if args is not an object. Otherwise it returns a fresh slice, in which
// everything else is unchanged. It skips steps with an unknown operation.
//
// It looks at ten million members at most, which takes some tenths of a second, and skips what is left to do then. It
// parses texts with 262,144 values at most, and with twice the length of args. If ctx ends while it
// waits for memory, it returns args; the validation that follows ends with ctx, too.
func Rewrite(ctx context.Context, steps []schemas.ArgumentRewrite, args json.RawMessage) json.RawMessage {
	if len(steps) == 0 {
		return args
	}
	leave, err := enter(ctx, roomOf(args), 0, false)
	if err != nil {
		return args
	}
	defer leave()
	v, err := parseJSON(args)
	if err != nil || v.kind != kindObject {
		return args
	}
	changed := false
	r := rewriter{left: maxRewriteMembers, texts: 2 * len(args), values: maxValues}
	for _, step := range steps {
		changed = r.rewrite(step, &v) || changed
	}
	if !changed {
		return args
	}
	return appendJSON(make([]byte, 0, len(args)+16), &v)
}

// maxRewriteMembers is how many members the steps of one call may look at: both the steps and the arguments come from
// outside.
const maxRewriteMembers = 10_000_000

// rewriter applies steps to the arguments of one call.
type rewriter struct {
	left   int // members
	texts  int // bytes to parse: a text that is no JSON would be parsed by each step for it
	values int // to parse
}

// find returns a member of an object, or nil if there is none or nothing is left.
func (r *rewriter) find(v *value, name string) *elem {
	if !r.spend(1 + len(v.elems)) {
		return nil
	}
	return v.find(name)
}

func (r *rewriter) spend(n int) bool {
	r.left -= n
	return r.left >= 0
}

func (r *rewriter) rewrite(step schemas.ArgumentRewrite, v *value) (changed bool) {
	switch step.Op {
	case schemas.RewriteRename:
		if step.In == "" {
			return r.rename(step, v)
		}
		list := v.member(step.In)
		if list == nil || list.kind != kindArray {
			return false
		}
		for i := range list.elems {
			changed = r.rename(step, &list.elems[i].val) || changed
		}
		return changed
	case schemas.RewriteParse:
		return r.parse(step, v)
	case schemas.RewriteGather:
		return r.gather(step, v)
	}
	return false
}

func (r *rewriter) rename(step schemas.ArgumentRewrite, v *value) bool {
	if v.kind != kindObject || r.find(v, step.To) != nil {
		return false
	}
	for _, name := range step.From {
		if m := r.find(v, name); m != nil {
			m.key = step.To
			v.elems = settleMembers(v.elems)
			return true
		}
	}
	return false
}

func (r *rewriter) parse(step schemas.ArgumentRewrite, v *value) bool {
	m := v.member(step.To)
	if m == nil || m.kind != kindString || len(m.str) > r.texts {
		return false
	}
	r.texts -= len(m.str)
	p := parser{in: m.str, nesting: maxNesting, left: r.values}
	held, err := p.whole()
	r.values = max(p.left, 0)
	if err != nil || held.kind&(kindArray|kindObject) == 0 {
		return false
	}
	*m = held
	return true
}

func (r *rewriter) gather(step schemas.ArgumentRewrite, v *value) bool {
	if !r.spend(len(v.elems) * len(step.From)) { // to remove the members
		return false
	}
	var object value
	object.kind = kindObject
	for i, name := range step.From {
		m := r.find(v, name)
		if m == nil || m.val.kind != kindString || slices.Contains(step.From[:i], name) {
			return false // the same text many times over would be many times as long
		}
		object.elems = append(object.elems, *m)
	}
	if len(object.elems) == 0 {
		return false
	}
	v.elems = slices.DeleteFunc(v.elems, func(e elem) bool { return slices.Contains(step.From, e.key) })
	list := v.member(step.To)
	if list == nil {
		v.elems = settleMembers(append(v.elems, elem{key: step.To}))
		list = v.member(step.To)
	}
	if list.kind != kindArray {
		*list = value{kind: kindArray}
	}
	list.elems = append(list.elems, elem{val: object})
	return true
}
