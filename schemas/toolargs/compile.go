package toolargs

import (
	"cmp"
	"math"
	"slices"
)

// compiler compiles one document into nodes. Every schema of the document becomes one node, so references may be
// circular.
type compiler struct {
	*limits
	nodes       map[*value]*node
	refs        *resolver
	unevaluated bool
	err         error // the first thing that cannot be compiled
}

// newCompiler returns a compiler for a document that is within the limits.
func newCompiler(doc *value, l *limits) *compiler {
	c := &compiler{limits: l, nodes: make(map[*value]*node)}
	if c.err = l.take(doc); c.err == nil {
		c.refs, c.unevaluated = newResolver(doc), asksUnevaluated(doc)
		c.remembers = c.remembers || c.unevaluated
	}
	return c
}

// alone compiles a member of a union as a separate document, as the reference implementation does to try it.
func (c *compiler) alone(schema *value) *node {
	inner := newCompiler(schema, c.limits)
	if inner.err != nil {
		c.err = cmp.Or(c.err, inner.err)
		return nil
	}
	if n := inner.node(schema); inner.err == nil {
		return n
	}
	return nil
}

func isSchema(v *value) bool { return v != nil && v.kind&(kindObject|kindBool) != 0 }

// asksUnevaluated reports whether any schema of the document depends on what has been evaluated.
func asksUnevaluated(v *value) bool {
	if isSchema(v.member("unevaluatedItems")) || isSchema(v.member("unevaluatedProperties")) {
		return true
	}
	return slices.ContainsFunc(v.elems, func(e elem) bool { return asksUnevaluated(&e.val) })
}

// node compiles a schema. The caller has checked that it is one.
func (c *compiler) node(schema *value) *node {
	if n := c.nodes[schema]; n != nil {
		return n
	}
	n := &node{unevaluated: c.unevaluated}
	c.nodes[schema] = n // before its parts, which may refer to it
	switch schema.kind {
	case kindTrue:
	case kindFalse:
		n.add(kindAny, func(w *walker, _ *value, r *report, _ *scope) bool { return r.add(w, "schema is false") })
	default:
		c.keywords(n, schema)
	}
	return n
}

func (n *node) add(on kind, run func(w *walker, v *value, r *report, sc *scope) bool) {
	n.checks = append(n.checks, check{on, run})
}

// keywords compiles the keywords of a schema, in the order in which violations are reported.
func (c *compiler) keywords(n *node, schema *value) {
	c.typeCheck(n, schema)
	c.objectChecks(n, schema)
	c.arrayChecks(n, schema)
	c.stringChecks(n, schema)
	c.numberChecks(n, schema)
	c.refChecks(n, schema)
	c.valueChecks(n, schema)
	c.logicChecks(n, schema)
	c.unevaluatedChecks(n, schema)
}

// schemaAt compiles the schema under a keyword; nil if there is none.
func (c *compiler) schemaAt(schema *value, keyword string) *node {
	if sub := schema.member(keyword); isSchema(sub) {
		return c.node(sub)
	}
	return nil
}

// listAt compiles the list of schemas under a keyword. A list with any other value is ignored.
func (c *compiler) listAt(schema *value, keyword string) ([]*node, bool) {
	list := schema.member(keyword)
	if list == nil || list.kind != kindArray {
		return nil, false
	}
	nodes := make([]*node, 0, len(list.elems))
	for i := range list.elems {
		if !isSchema(&list.elems[i].val) {
			return nil, false
		}
		nodes = append(nodes, c.node(&list.elems[i].val))
	}
	return nodes, true
}

// namedNode is a schema with a name: that of a property, or a pattern.
type namedNode struct {
	name string
	*node
}

// mapAt compiles the object of schemas under a keyword. An object with any other value is ignored.
func (c *compiler) mapAt(schema *value, keyword string) ([]namedNode, bool) {
	m := schema.member(keyword)
	if m == nil || m.kind != kindObject {
		return nil, false
	}
	nodes := make([]namedNode, 0, len(m.elems))
	for i := range m.elems {
		if !isSchema(&m.elems[i].val) {
			return nil, false
		}
		nodes = append(nodes, namedNode{m.elems[i].key, c.node(&m.elems[i].val)})
	}
	return nodes, true
}

// numberAt returns the number under a keyword.
func numberAt(schema *value, keyword string) (float64, bool) {
	v := schema.member(keyword)
	if v == nil || v.kind != kindNumber || math.IsInf(v.num, 0) {
		return 0, false
	}
	return v.num, true
}

// stringAt returns the string under a keyword.
func stringAt(schema *value, keyword string) (string, bool) {
	v := schema.member(keyword)
	if v == nil || v.kind != kindString {
		return "", false
	}
	return v.str, true
}

// stringsOf returns a list that consists only of strings.
func stringsOf(v *value) ([]string, bool) {
	if v == nil || v.kind != kindArray {
		return nil, false
	}
	list := make([]string, 0, len(v.elems))
	for i := range v.elems {
		if v.elems[i].val.kind != kindString {
			return nil, false
		}
		list = append(list, v.elems[i].val.str)
	}
	return list, true
}

// regexp compiles a pattern. The first one that fails is the error of the whole schema.
func (c *compiler) regexp(pattern string) matcher {
	re, err := c.limits.pattern(pattern)
	if err != nil && c.err == nil {
		c.err = err
	}
	return re
}
