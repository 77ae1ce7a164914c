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
// parses no text with more than 262,144 values.
func Rewrite(steps []schemas.ArgumentRewrite, args json.RawMessage) json.RawMessage {
	if len(steps) == 0 {
		return args
	}
	leave, err := enter(context.Background(), roomOf(args), 0, false) // those who have the room wait for nobody
	if err != nil {
		return args
	}
	defer leave()
	v, err := parseJSON(args)
	if err != nil || v.kind != kindObject {
		return args
	}
	changed := false
	r := rewriter{left: maxRewriteMembers}
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
type rewriter struct{ left int }

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
		return parse(step, v)
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

func parse(step schemas.ArgumentRewrite, v *value) bool {
	m := v.member(step.To)
	if m == nil || m.kind != kindString {
		return false
	}
	held, err := parseJSON([]byte(m.str))
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
	for _, name := range step.From {
		m := r.find(v, name)
		if m == nil || m.val.kind != kindString {
			return false
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
