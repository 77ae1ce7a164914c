package toolargs

import (
	"encoding/json"
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

// Rewrite changes a model's arguments to the names and shapes that a tool expects, by the steps of its definition. It
// returns args itself if no step applied, or if args is not an object. Otherwise it returns a fresh slice, in which
// everything else is unchanged. It skips steps with an unknown operation.
func Rewrite(steps []schemas.ArgumentRewrite, args json.RawMessage) json.RawMessage {
	if len(steps) == 0 {
		return args
	}
	v, err := parseJSON(args)
	if err != nil || v.kind != kindObject {
		return args
	}
	changed := false
	for _, step := range steps {
		changed = rewrite(step, &v) || changed
	}
	if !changed {
		return args
	}
	return appendJSON(make([]byte, 0, len(args)+16), &v)
}

func rewrite(step schemas.ArgumentRewrite, v *value) (changed bool) {
	switch step.Op {
	case schemas.RewriteRename:
		if step.In == "" {
			return rename(step, v)
		}
		list := v.member(step.In)
		if list == nil || list.kind != kindArray {
			return false
		}
		for i := range list.elems {
			changed = rename(step, &list.elems[i].val) || changed
		}
		return changed
	case schemas.RewriteParse:
		return parse(step, v)
	case schemas.RewriteGather:
		return gather(step, v)
	}
	return false
}

func rename(step schemas.ArgumentRewrite, v *value) bool {
	if v.kind != kindObject || v.find(step.To) != nil {
		return false
	}
	for _, name := range step.From {
		if m := v.find(name); m != nil {
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

func gather(step schemas.ArgumentRewrite, v *value) bool {
	var object value
	object.kind = kindObject
	for _, name := range step.From {
		m := v.find(name)
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
