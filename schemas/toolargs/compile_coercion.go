package toolargs

import "slices"

// coercion compiles the coercion of a schema; nil if it coerces nothing.
func (c *compiler) coercion(schema *value) *coercion {
	if schema.kind != kindObject {
		return nil
	}
	co := &coercion{
		types: schemaTypes(schema.member("type")),
		anyOf: c.union(schema.member("anyOf")),
		oneOf: c.union(schema.member("oneOf")),
	}
	if list := schema.member("allOf"); list != nil && list.kind == kindArray {
		for i := range list.elems {
			if nested := c.coercion(&list.elems[i].val); nested != nil {
				co.allOf = append(co.allOf, nested)
			}
		}
	}
	if slices.Contains(co.types, "object") {
		c.memberCoercion(co, schema)
	}
	if slices.Contains(co.types, "array") {
		c.itemCoercion(co, schema.member("items"))
	}
	if co.idle() {
		return nil
	}
	return co
}

// idle reports whether a coercion cannot change anything.
func (c *coercion) idle() bool {
	structural := func(t string) bool { return t == "object" || t == "array" }
	return len(c.allOf) == 0 && len(c.anyOf) == 0 && len(c.oneOf) == 0 && len(c.properties) == 0 &&
		c.additional == nil && c.items == nil && len(c.tuple) == 0 &&
		!slices.ContainsFunc(c.types, func(t string) bool { return !structural(t) })
}

func (c *compiler) memberCoercion(co *coercion, schema *value) {
	properties := schema.member("properties")
	if properties != nil && properties.kind == kindObject {
		for i := range properties.elems {
			if p := c.coercion(&properties.elems[i].val); p != nil {
				co.properties = append(co.properties, namedCoercion{properties.elems[i].key, p})
			}
		}
	}
	additional := schema.member("additionalProperties")
	if additional == nil {
		return
	}
	if co.additional = c.coercion(additional); co.additional != nil {
		co.known = make(map[string]bool)
		if properties != nil {
			for i := range properties.elems {
				co.known[properties.elems[i].key] = true
			}
		}
	}
}

func (c *compiler) itemCoercion(co *coercion, items *value) {
	switch {
	case items == nil:
	case items.kind == kindObject:
		co.items = c.coercion(items)
	case items.kind == kindArray:
		for i := range items.elems {
			co.tuple = append(co.tuple, c.coercion(&items.elems[i].val))
		}
	}
}

func (c *compiler) union(list *value) []unionMember {
	if list == nil || list.kind != kindArray {
		return nil
	}
	var members []unionMember
	for i := range list.elems {
		if member := &list.elems[i].val; member.kind == kindObject {
			members = append(members, unionMember{c.coercion(member), c.alone(member)})
		}
	}
	return members
}

// schemaTypes returns the types to which a value may be coerced, in the schema's order.
func schemaTypes(v *value) []string {
	switch {
	case v == nil:
	case v.kind == kindString:
		return []string{v.str}
	case v.kind == kindArray:
		var types []string
		for i := range v.elems {
			if t := &v.elems[i].val; t.kind == kindString {
				types = append(types, t.str)
			}
		}
		return types
	}
	return nil
}
