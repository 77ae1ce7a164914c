package toolargs

import (
	"cmp"
	"strconv"
	"strings"
)

// node is a compiled schema: its checks in the order in which violations are reported.
type node struct {
	checks      []check
	unevaluated bool // of a root: a schema of the document depends on what was evaluated
	uses        int  // number of places that refer to it or check the same value by it
}

// check is one keyword. It runs for values of the kinds in on and reports whether the value passes.
type check struct {
	on  kind
	run func(w *walker, v *value, r *report, sc *scope) bool
}

// maxDepth bounds the recursion of a walk, far beyond what limited arguments and schemas need. It stops a schema that
// refers to itself without consuming any of the value.
const maxDepth = 20 * maxNesting

// walker is the state of one walk over schema and value.
type walker struct {
	*budget
	path    []byte // JSON pointer to the value; kept only while reporting
	depth   int
	endless bool
	known   map[visit]outcome // of the nodes with several uses
}

// fits reports whether a value matches a schema. A schema that refers to itself without end matches nothing.
func (b *budget) fits(root *node, v *value) bool {
	w := walker{budget: b}
	return w.walk(root, v, nil, root.scope()) && !w.endless
}

// walk reports whether the value matches. Without a report it stops at the first violation, with one it finds them all.
func (w *walker) walk(n *node, v *value, r *report, sc *scope) bool {
	if w.endless || r.full() || !w.spend(1+len(n.checks)) {
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

// visit is the check of a value by a node, with or without a report.
type visit struct {
	node      *node
	value     *value
	reporting bool
}

// outcome is the result of a visit.
type outcome struct {
	fits       bool
	violations []violation
	evaluated  *scope
}

// The memory that is remembered, in bytes: of an outcome and of each of its violations, of a scope with its first keys
// or items, and of each of them.
const (
	outcomeBytes, violationBytes = 160, 48
	scopeBytes, keyBytes         = 256, 64
)

// bytes returns how much memory the outcome takes; what its scope has is counted already.
func (o outcome) bytes() int {
	n := outcomeBytes
	for _, v := range o.violations {
		n += violationBytes + len(v.path) + len(v.message)
	}
	return n
}

// visitSteps is the number of steps for remembering an outcome, because of the memory that it takes.
const visitSteps = 16

// visit walks with a report and a scope of its own. A node that several references name is walked once for a value:
// otherwise every level of references that name the next level twice would double the work.
func (w *walker) visit(n *node, v *value, reporting, scoped bool) outcome {
	key := visit{n, v, reporting}
	if out, ok := w.known[key]; ok {
		return out
	}
	var out outcome
	if scoped {
		out.evaluated = new(scope)
	}
	var r *report
	if reporting {
		r = new(report)
	}
	if out.fits = w.walk(n, v, r, out.evaluated); reporting {
		out.violations = r.violations
	}
	if n.uses > 1 && w.spend(visitSteps+4*len(out.violations)) && w.remember(out.bytes()) {
		if w.known == nil {
			w.known = make(map[visit]outcome)
		}
		w.known[key] = out
	}
	return out
}

// enough reports whether a check that has failed may stop: nothing more is reported.
func (w *walker) enough(r *report) bool { return r == nil || r.full() || w.err != nil }

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

// descend extends the path, up to maxPath, and returns a function that restores it.
func (w *walker) descend(token string) (back func()) {
	was := len(w.path)
	if room := max(maxPath-was, 0); len(token) > room {
		token = strings.ToValidUTF8(token[:room], "")
	}
	w.spend(len(token) / stepBytes)
	w.path = append(w.path, '/')
	w.path = append(w.path, pointerEscaper.Replace(token)...)
	return func() { w.path = w.path[:was] }
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

const (
	// maxViolations is the largest number of violations in a report. Each member of a union has a report of its own.
	maxViolations = 8
	// maxPath and maxMessage limit the bytes of a violation: the names in it come from models. With escapes, a path may be
	// twice as long, and it has a byte more for every level.
	maxPath, maxMessage = 4 << 10, 16 << 10
	// stepBytes is how many bytes of a violation take as many steps as the visit of a value.
	stepBytes = 16
)

// violation is a line of the error.
type violation struct {
	path    string
	message string
}

// report collects violations. A nil report is never full.
type report struct{ violations []violation }

func (r *report) full() bool { return r != nil && len(r.violations) >= maxViolations }

// add records a violation at the walker's path. It returns false, the result of a check that found one.
func (r *report) add(w *walker, message string) bool {
	if r == nil || r.full() {
		return false
	}
	return r.addAt(w, dotted(w.path), message)
}

func (r *report) addAt(w *walker, path, message string) bool {
	path, message = cut(path, 4*maxPath), cut(message, maxMessage)
	if r != nil && !r.full() && w.spend((len(path)+len(message))/stepBytes) {
		r.violations = append(r.violations, violation{cmp.Or(path, "root"), message})
	}
	return false
}

// cut returns a text of at most about n bytes.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + " [cut]"
}

// addAll adds the violations of other reports, as far as there is room.
func (r *report) addAll(violations []violation) {
	if r != nil {
		r.violations = append(r.violations, violations[:min(len(violations), maxViolations-len(r.violations))]...)
	}
}

// branch returns a separate report for a member of a union, nil if nothing is reported.
func (r *report) branch() *report {
	if r == nil {
		return nil
	}
	return new(report)
}

// dotted makes a dotted path of a JSON pointer. It does not decode the escapes.
func dotted(pointer []byte) string {
	return strings.ReplaceAll(strings.TrimPrefix(string(pointer), "/"), "/", ".")
}

// scope records what of one object or array has been evaluated, for unevaluatedProperties and unevaluatedItems. It is
// nil in documents without these keywords.
type scope struct {
	keys  map[string]bool
	items map[int]bool
}

// scope returns the initial scope of a walk from this root.
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

// scopeSteps is the number of steps for recording a key or an item, because of the memory that it takes.
const scopeSteps = 4

// keep takes the memory for a key or an item of a scope, and reports whether there is some. The validation ends if not,
// because it would be wrong without.
func (w *walker) keep(sc *scope) bool {
	n := keyBytes
	if sc.keys == nil && sc.items == nil {
		n += scopeBytes
	}
	if !w.remember(n) && w.err == nil {
		w.end(errRemembered)
	}
	return w.err == nil
}

func (w *walker) addKey(sc *scope, key string) {
	if sc == nil || !w.spend(scopeSteps) || !w.keep(sc) {
		return
	}
	if sc.keys == nil {
		sc.keys = make(map[string]bool)
	}
	sc.keys[key] = true
}

func (w *walker) addItem(sc *scope, index int) {
	if sc == nil || !w.spend(scopeSteps) || !w.keep(sc) {
		return
	}
	if sc.items == nil {
		sc.items = make(map[int]bool)
	}
	sc.items[index] = true
}

func (sc *scope) hasKey(key string) bool { return sc != nil && sc.keys[key] }
func (sc *scope) hasItem(index int) bool { return sc != nil && sc.items[index] }

// merge adds what another scope of the same object or array has recorded.
func (w *walker) merge(sc, other *scope) {
	if sc == nil || other == nil {
		return
	}
	for key := range other.keys {
		w.addKey(sc, key)
	}
	for index := range other.items {
		w.addItem(sc, index)
	}
}
