package toolargs

// refChecks compiles $ref and its dynamic variants. A reference that cannot be resolved counts as the schema false.
func (c *compiler) refChecks(n *node, schema *value) {
	for _, keyword := range []string{"$ref", "$recursiveRef", "$dynamicRef"} {
		ref, ok := stringAt(schema, keyword)
		if !ok {
			continue
		}
		target := c.refs.resolve(schema, ref, keyword == "$dynamicRef")
		if !isSchema(target) {
			target = &value{kind: kindFalse}
		}
		to := c.node(target)
		c.use(to)
		n.add(kindAny, func(w *walker, v *value, r *report, sc *scope) bool {
			out := w.visit(to, v, r != nil, sc != nil)
			if out.fits {
				w.merge(sc, out.evaluated)
			} else {
				r.addAll(out.violations)
			}
			return out.fits
		})
	}
}

// use counts a use of a node.
func (c *compiler) use(n *node) {
	n.uses++
	c.remembers = c.remembers || n.uses > 1
}

// logicChecks compiles the keywords that combine schemas.
func (c *compiler) logicChecks(n *node, schema *value) {
	c.ifCheck(n, schema)
	if not := c.schemaAt(schema, "not"); not != nil {
		n.add(kindAny, func(w *walker, v *value, r *report, sc *scope) bool {
			return !w.walk(not, v, nil, sc.fresh()) || r.add(w, "must not be valid")
		})
	}
	if members, ok := c.listAt(schema, "allOf"); ok {
		n.add(kindAny, func(w *walker, v *value, r *report, sc *scope) bool {
			passed, failed := w.walkAll(members, v, r, sc)
			if passed == len(members) {
				return true
			}
			r.addAll(failed)
			return false
		})
	}
	if members, ok := c.listAt(schema, "anyOf"); ok {
		n.add(kindAny, func(w *walker, v *value, r *report, sc *scope) bool {
			passed, failed := w.walkAll(members, v, r, sc)
			if passed > 0 {
				return true
			}
			r.addAll(failed)
			return r.add(w, "must match a schema in anyOf")
		})
	}
	if members, ok := c.listAt(schema, "oneOf"); ok {
		n.add(kindAny, func(w *walker, v *value, r *report, sc *scope) bool {
			passed, failed := w.walkAll(members, v, r, sc)
			if passed == 1 {
				return true
			}
			if passed == 0 {
				r.addAll(failed)
			}
			return r.add(w, "must match exactly one schema in oneOf")
		})
	}
}

// walkAll checks the value against every member. It returns how many match and what the others report, as much as a
// report takes, and merges into the scope what the matching ones have evaluated.
func (w *walker) walkAll(members []*node, v *value, r *report, sc *scope) (passed int, failed []violation) {
	for _, m := range members {
		inner, branch := sc.fresh(), (*report)(nil)
		if len(failed) < maxViolations {
			branch = r.branch()
		}
		switch {
		case w.walk(m, v, branch, inner):
			passed++
			w.merge(sc, inner)
		case branch != nil:
			failed = append(failed, branch.violations...)
		}
	}
	return passed, failed
}

// ifCheck compiles if, then and else. As in the reference implementation, violations of else are reported, those of
// then are not.
func (c *compiler) ifCheck(n *node, schema *value) {
	condition := c.schemaAt(schema, "if")
	if condition == nil {
		return
	}
	then, otherwise := c.schemaAt(schema, "then"), c.schemaAt(schema, "else")
	n.add(kindAny, func(w *walker, v *value, r *report, sc *scope) bool {
		if inner := sc.fresh(); w.walk(condition, v, nil, inner) {
			if then != nil && !w.walk(then, v, nil, inner) {
				return r.add(w, `must match "then" schema`)
			}
			w.merge(sc, inner)
			return true
		}
		return otherwise == nil || w.walk(otherwise, v, r, sc) || r.add(w, `must match "else" schema`)
	})
}

// unevaluatedChecks compiles the keywords for items and properties that no other keyword of the schema has evaluated.
// They come last.
func (c *compiler) unevaluatedChecks(n *node, schema *value) {
	if rest := c.schemaAt(schema, "unevaluatedItems"); rest != nil {
		n.add(kindArray, func(w *walker, v *value, r *report, sc *scope) bool {
			ok := true
			for i := range v.elems {
				if sc.hasItem(i) || w.walk(rest, &v.elems[i].val, nil, sc.fresh()) {
					w.addItem(sc, i)
				} else {
					ok = false
				}
			}
			return ok || r.add(w, "must not have unevaluated items")
		})
	}
	if rest := c.schemaAt(schema, "unevaluatedProperties"); rest != nil {
		n.add(kindObject, func(w *walker, v *value, r *report, sc *scope) bool {
			ok := true
			for i := range v.elems {
				if key := v.elems[i].key; sc.hasKey(key) || w.walk(rest, &v.elems[i].val, nil, sc.fresh()) {
					w.addKey(sc, key)
				} else {
					ok = false
				}
			}
			return ok || r.add(w, "must not have unevaluated properties")
		})
	}
}
