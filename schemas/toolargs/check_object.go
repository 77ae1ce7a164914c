package toolargs

import (
	"fmt"
	"strings"
)

// objectChecks compiles the keywords for objects.
func (c *compiler) objectChecks(n *node, schema *value) {
	c.requiredCheck(n, schema)
	c.additionalCheck(n, schema)
	c.dependencyChecks(n, schema)
	c.patternPropertiesCheck(n, schema)
	if properties, ok := c.mapAt(schema, "properties"); ok {
		n.add(kindObject, func(w *walker, v *value, r *report, sc *scope) bool {
			return checkProperties(properties, w, v, r, sc)
		})
	}
	if names := c.schemaAt(schema, "propertyNames"); names != nil {
		n.add(kindObject, func(w *walker, v *value, r *report, sc *scope) bool { return checkNames(names, w, v, r, sc) })
	}
	if limit, ok := numberAt(schema, "minProperties"); ok {
		n.add(kindObject, func(w *walker, v *value, r *report, _ *scope) bool {
			return float64(len(v.elems)) >= limit || r.add(w, "must not have fewer than "+formatNumber(limit)+" properties")
		})
	}
	if limit, ok := numberAt(schema, "maxProperties"); ok {
		n.add(kindObject, func(w *walker, v *value, r *report, _ *scope) bool {
			return float64(len(v.elems)) <= limit || r.add(w, "must not have more than "+formatNumber(limit)+" properties")
		})
	}
}

// requiredCheck reports all missing properties in one line, under the path of the first.
func (c *compiler) requiredCheck(n *node, schema *value) {
	required, ok := stringsOf(schema.member("required"))
	if !ok {
		return
	}
	n.add(kindObject, func(w *walker, v *value, r *report, _ *scope) bool {
		var missing []string
		for _, name := range required {
			if !w.spend(1 + len(v.elems)) {
				return false
			}
			if v.member(name) == nil {
				if r == nil {
					return false
				}
				missing = append(missing, name)
			}
		}
		if len(missing) == 0 {
			return true
		}
		path := dotted(w.path)
		if path != "" && missing[0] != "" {
			path += "."
		}
		return r.addAt(w, path+missing[0], "must have required properties "+strings.Join(missing, ", "))
	})
}

// additionalCheck compiles additionalProperties: for properties that neither properties nor patternProperties name.
func (c *compiler) additionalCheck(n *node, schema *value) {
	additional := c.schemaAt(schema, "additionalProperties")
	if additional == nil {
		return
	}
	properties, _ := c.mapAt(schema, "properties")
	known := make(map[string]bool, len(properties))
	for _, p := range properties {
		known[p.name] = true
	}
	patterns, _ := c.patterns(schema)
	n.add(kindObject, func(w *walker, v *value, r *report, sc *scope) bool {
		ok := true
		for i := range v.elems {
			m := &v.elems[i]
			if known[m.key] || matchesAny(w.budget, patterns, m.key) {
				continue
			}
			if w.walkMember(additional, m, r, sc) {
				w.addKey(sc, m.key)
			} else if ok = false; w.enough(r) {
				return false
			}
		}
		return ok || r.add(w, "must not have additional properties")
	})
}

// patternNode is a schema for the properties whose names match.
type patternNode struct {
	matcher
	schema *node
}

func (c *compiler) patterns(schema *value) ([]patternNode, bool) {
	nodes, ok := c.mapAt(schema, "patternProperties")
	patterns := make([]patternNode, 0, len(nodes))
	for _, p := range nodes {
		if re := c.regexp(p.name); re != nil {
			patterns = append(patterns, patternNode{re, p.node})
		}
	}
	return patterns, ok
}

func matchesAny(b *budget, patterns []patternNode, name string) bool {
	for _, p := range patterns {
		if p.match(b, name) {
			return true
		}
	}
	return false
}

func (c *compiler) patternPropertiesCheck(n *node, schema *value) {
	patterns, ok := c.patterns(schema)
	if !ok {
		return
	}
	n.add(kindObject, func(w *walker, v *value, r *report, sc *scope) bool {
		ok := true
		for _, p := range patterns {
			for i := range v.elems {
				m := &v.elems[i]
				if !p.match(w.budget, m.key) {
					continue
				}
				if w.walkMember(p.schema, m, r, sc) {
					w.addKey(sc, m.key)
				} else if ok = false; w.enough(r) {
					return false
				}
			}
		}
		return ok
	})
}

// checkProperties checks the properties in the schema's order.
func checkProperties(properties []namedNode, w *walker, v *value, r *report, sc *scope) bool {
	ok := true
	for _, p := range properties {
		if !w.spend(1 + len(v.elems)) {
			return false
		}
		m := v.find(p.name)
		if m == nil {
			w.addKey(sc, p.name)
			continue
		}
		if w.walkMember(p.node, m, r, sc) {
			w.addKey(sc, p.name)
		} else if ok = false; w.enough(r) {
			return false
		}
	}
	return ok
}

// checkNames checks every name, as a string, against a schema.
func checkNames(names *node, w *walker, v *value, r *report, sc *scope) bool {
	var invalid []string
	for i := range v.elems {
		name := elem{key: v.elems[i].key, val: value{kind: kindString, str: v.elems[i].key}}
		if !w.walkMember(names, &name, r, sc) {
			if r == nil {
				return false
			}
			invalid = append(invalid, name.key)
		}
	}
	return len(invalid) == 0 || r.add(w, "property names "+joined(invalid)+" are invalid")
}

// joined joins names, as many as a message may have.
func joined(names []string) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		if b.Len()+len(name) > maxMessage {
			b.WriteString(name[:max(maxMessage-b.Len(), 0)])
			break
		}
		b.WriteString(name)
	}
	return b.String()
}

// dependency is what a property requires if it is present: other properties, or a schema for the whole object.
type dependency struct {
	name   string
	others []string
	schema *node
	each   bool // report every missing property, not only the first
}

// dependencyChecks compiles dependencies, dependentRequired and dependentSchemas.
func (c *compiler) dependencyChecks(n *node, schema *value) {
	for _, keyword := range []string{"dependencies", "dependentRequired", "dependentSchemas"} {
		dependencies, ok := c.dependencies(schema.member(keyword), keyword)
		if !ok {
			continue
		}
		n.add(kindObject, func(w *walker, v *value, r *report, sc *scope) bool {
			ok := true
			for _, d := range dependencies {
				if w.spend(1+len(v.elems)) && v.member(d.name) != nil && !d.check(w, v, r, sc) {
					if ok = false; w.enough(r) {
						return false
					}
				}
			}
			return ok
		})
	}
}

// dependencies parses the object under one of the three keywords. If any part of it is malformed, the keyword is
// ignored.
func (c *compiler) dependencies(v *value, keyword string) ([]dependency, bool) {
	if v == nil || v.kind != kindObject {
		return nil, false
	}
	list := make([]dependency, 0, len(v.elems))
	for i := range v.elems {
		d := dependency{name: v.elems[i].key, each: keyword == "dependentRequired"}
		sub := &v.elems[i].val
		others, isList := stringsOf(sub)
		switch {
		case isList && keyword != "dependentSchemas":
			d.others = others
		case isSchema(sub) && keyword != "dependentRequired":
			d.schema = c.node(sub)
		default:
			return nil, false
		}
		list = append(list, d)
	}
	return list, true
}

func (d dependency) check(w *walker, v *value, r *report, sc *scope) bool {
	if d.schema != nil {
		return w.walk(d.schema, v, r, sc)
	}
	ok := true
	for _, other := range d.others {
		if !w.spend(1+len(v.elems)) || v.member(other) != nil {
			continue
		}
		if ok = false; w.enough(r) {
			break
		}
		r.add(w, fmt.Sprintf("must have properties %s when property %s is present", strings.Join(d.others, ", "), d.name))
		if !d.each {
			break
		}
	}
	return ok
}
