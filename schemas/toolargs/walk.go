package toolargs

import (
	"slices"
	"strconv"
	"strings"
)

// node is a compiled schema: its checks in the order in which violations are reported.
type node struct {
	checks      []check
	unevaluated bool // of a root: some schema of the document asks what has been evaluated
}

// check is one keyword. It runs for values of the kinds in on and reports whether the value passes.
type check struct {
	on  kind
	run func(w *walker, v *value, r *report, sc *scope) bool
}

// maxDepth bounds the recursion of a walk, far beyond what bounded arguments and schemas need: it stops a schema that
// refers to itself without consuming any of the value.
const maxDepth = 20 * maxNesting

// walker is the state of one walk over schema and value.
type walker struct {
	path    []byte // JSON pointer to the value; kept only while reporting
	depth   int
	endless bool
}

// walk reports whether the value fits. Without a report it stops at the first violation, with one it finds them all.
func (w *walker) walk(n *node, v *value, r *report, sc *scope) bool {
	if w.endless || r.full() {
		return false
	}
	if w.depth++; w.depth > maxDepth {
		w.endless = true
		return false
	}
	ok := true
	for i := range n.checks {
		if c := &n.checks[i]; c.on&v.kind != 0 && !c.run(w, v, r, sc) {
			if ok = false; r == nil {
				break
			}
		}
	}
	w.depth--
	return ok
}

// walkMember walks a property; walkItem an item.
func (w *walker) walkMember(n *node, m *elem, r *report, sc *scope) bool {
	if r == nil {
		return w.walk(n, &m.val, nil, sc.fresh())
	}
	defer w.descend(m.key)()
	return w.walk(n, &m.val, r, sc.fresh())
}

func (w *walker) walkItem(n *node, v *value, index int, r *report, sc *scope) bool {
	if r == nil {
		return w.walk(n, &v.elems[index].val, nil, sc.fresh())
	}
	defer w.descend(strconv.Itoa(index))()
	return w.walk(n, &v.elems[index].val, r, sc.fresh())
}

// descend extends the path, and returns how to go back.
func (w *walker) descend(token string) (back func()) {
	was := len(w.path)
	w.path = append(w.path, '/')
	w.path = append(w.path, pointerEscaper.Replace(token)...)
	return func() { w.path = w.path[:was] }
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// maxViolations is how many violations one report holds, and the report of each member of a union on its own.
const maxViolations = 8

// violation is a line of the error.
type violation struct {
	path    string
	message string
}

// report collects violations. A nil report is never full.
type report struct{ violations []violation }

func (r *report) full() bool { return r != nil && len(r.violations) >= maxViolations }

// add notes a violation at the walker's place, and returns false as the check that found it has to.
func (r *report) add(w *walker, message string) bool { return r.addAt(dotted(w.path), message) }

func (r *report) addAt(path, message string) bool {
	if r != nil && !r.full() {
		if path == "" {
			path = "root"
		}
		r.violations = append(r.violations, violation{path, message})
	}
	return false
}

// addAll takes over what the members of a union found.
func (r *report) addAll(failed []*report) {
	for _, other := range failed {
		for _, v := range other.violations {
			r.addAt(v.path, v.message)
		}
	}
}

// branch is a report of its own for a member of a union, nil where nothing is reported.
func (r *report) branch() *report {
	if r == nil {
		return nil
	}
	return new(report)
}

// dotted makes a path of a pointer: the escapes stay, the slashes become dots.
func dotted(pointer []byte) string {
	return strings.ReplaceAll(strings.TrimPrefix(string(pointer), "/"), "/", ".")
}

// scope remembers what of one object or array has been evaluated, for unevaluatedProperties and unevaluatedItems. It is
// nil in documents that have neither.
type scope struct {
	keys  []string
	items []int
}

// scope returns the scope a walk from this root starts in.
func (n *node) scope() *scope {
	if n.unevaluated {
		return new(scope)
	}
	return nil
}

func (sc *scope) fresh() *scope {
	if sc == nil {
		return nil
	}
	return new(scope)
}

func (sc *scope) addKey(key string) {
	if sc != nil && !sc.hasKey(key) {
		sc.keys = append(sc.keys, key)
	}
}

func (sc *scope) addItem(index int) {
	if sc != nil && !sc.hasItem(index) {
		sc.items = append(sc.items, index)
	}
}

func (sc *scope) hasKey(key string) bool { return sc != nil && slices.Contains(sc.keys, key) }
func (sc *scope) hasItem(index int) bool { return sc != nil && slices.Contains(sc.items, index) }

func (sc *scope) merge(other *scope) {
	if sc == nil || other == nil {
		return
	}
	for _, key := range other.keys {
		sc.addKey(key)
	}
	for _, index := range other.items {
		sc.addItem(index)
	}
}
