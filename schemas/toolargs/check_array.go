package toolargs

// arrayChecks compiles the keywords for arrays.
func (c *compiler) arrayChecks(n *node, schema *value) {
	tuple, sized := c.listAt(schema, "items")
	if rest := c.schemaAt(schema, "additionalItems"); rest != nil && sized {
		n.add(kindArray, func(w *walker, v *value, r *report, sc *scope) bool {
			for i := len(tuple); i < len(v.elems); i++ {
				if !w.walkItem(rest, v, i, r, sc) {
					return false // the reference implementation reports only one
				}
				w.addItem(sc, i)
			}
			return true
		})
	}
	contains := c.schemaAt(schema, "contains")
	atLeast, bounded := numberAt(schema, "minContains")
	if contains != nil && !(bounded && atLeast == 0) {
		n.add(kindArray, c.containsCheck(contains, func(found int) bool { return found > 0 }))
	}
	prefix, prefixed := c.listAt(schema, "prefixItems")
	if sized {
		n.add(kindArray, tupleCheck(tuple))
	} else if items := c.schemaAt(schema, "items"); items != nil {
		n.add(kindArray, itemsCheck(items, len(prefix)))
	}
	if contains != nil && bounded {
		n.add(kindArray, c.containsCheck(contains, func(found int) bool { return float64(found) >= atLeast }))
	}
	if atMost, ok := numberAt(schema, "maxContains"); ok && contains != nil {
		n.add(kindArray, c.containsCheck(contains, func(found int) bool { return float64(found) <= atMost }))
	}
	if limit, ok := numberAt(schema, "minItems"); ok {
		n.add(kindArray, func(w *walker, v *value, r *report, _ *scope) bool {
			return float64(len(v.elems)) >= limit || r.add(w, "must not have fewer than "+formatNumber(limit)+" items")
		})
	}
	if limit, ok := numberAt(schema, "maxItems"); ok {
		n.add(kindArray, func(w *walker, v *value, r *report, _ *scope) bool {
			return float64(len(v.elems)) <= limit || r.add(w, "must not have more than "+formatNumber(limit)+" items")
		})
	}
	if prefixed {
		n.add(kindArray, tupleCheck(prefix))
	}
	if unique := schema.member("uniqueItems"); unique != nil && unique.kind == kindTrue {
		n.add(kindArray, func(w *walker, v *value, r *report, _ *scope) bool {
			return allDifferent(w.budget, v.elems) || r.add(w, "must not have duplicate items")
		})
	}
}

// itemsCheck checks every item, from the index from on, against one schema.
func itemsCheck(items *node, from int) func(*walker, *value, *report, *scope) bool {
	return func(w *walker, v *value, r *report, sc *scope) bool {
		ok := true
		for i := from; i < len(v.elems); i++ {
			if w.walkItem(items, v, i, r, sc) {
				w.addItem(sc, i)
			} else if ok = false; w.enough(r) {
				return false
			}
		}
		return ok
	}
}

// tupleCheck checks each item against the schema at its index.
func tupleCheck(tuple []*node) func(*walker, *value, *report, *scope) bool {
	return func(w *walker, v *value, r *report, sc *scope) bool {
		ok := true
		for i := 0; i < len(tuple) && i < len(v.elems); i++ {
			if w.walkItem(tuple[i], v, i, r, sc) {
				w.addItem(sc, i)
			} else if ok = false; w.enough(r) {
				return false
			}
		}
		return ok
	}
}

// containsCheck counts the items that match. All its uses report the same text.
func (c *compiler) containsCheck(item *node, enough func(found int) bool) func(*walker, *value, *report, *scope) bool {
	c.use(item)
	return func(w *walker, v *value, r *report, sc *scope) bool {
		found := 0
		for i := range v.elems {
			if w.visit(item, &v.elems[i].val, false, sc != nil).fits {
				w.addItem(sc, i)
				found++
			}
		}
		return enough(found) || r.add(w, "must contain at least 1 valid item")
	}
}

// allDifferent compares scalars with a set, and only the other items pair by pair.
func allDifferent(b *budget, items []elem) bool {
	type scalar struct {
		kind kind
		num  float64
		str  string
	}
	seen := make(map[scalar]bool, len(items))
	var composite []*value
	for i := range items {
		v := &items[i].val
		if !b.spend(1 + len(v.str)/64) {
			return false
		}
		if v.kind&(kindArray|kindObject) != 0 {
			for _, other := range composite {
				if v.equal(b, other) {
					return false
				}
			}
			composite = append(composite, v)
			continue
		}
		key := scalar{kind: v.kind, num: v.num}
		if v.kind == kindString {
			key.str = v.str
		}
		if seen[key] {
			return false
		}
		seen[key] = true
	}
	return true
}
