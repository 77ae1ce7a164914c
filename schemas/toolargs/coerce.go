package toolargs

import "slices"

// coercion is how a schema coerces a value. It is compiled separately from the checks because it follows fewer
// keywords. A schema that coerces nothing has none.
type coercion struct {
	allOf        []*coercion
	anyOf, oneOf []unionMember
	types        []string
	properties   []namedCoercion
	additional   *coercion
	known        map[string]bool // names in properties, where additional is set
	items        *coercion
	tuple        []*coercion // items as a list; members may be nil
}

type namedCoercion struct {
	name string
	*coercion
}

// unionMember is a member of anyOf or oneOf. Its schema is compiled as a separate document; a nil schema never matches.
type unionMember struct {
	*coercion
	alone *node
}

// apply coerces in place and reports whether it changed anything.
func (c *coercion) apply(b *budget, v *value) (changed bool) {
	if !b.spend(1 + len(c.types)) {
		return false
	}
	for _, nested := range c.allOf {
		changed = nested.applyTo(b, v) || changed
	}
	changed = applyUnion(b, c.anyOf, v) || changed
	changed = applyUnion(b, c.oneOf, v) || changed
	changed = c.applyTypes(b, v) || changed
	switch {
	case v.kind == kindObject && slices.Contains(c.types, "object"):
		changed = c.applyMembers(b, v) || changed
	case v.kind == kindArray && slices.Contains(c.types, "array"):
		changed = c.applyItems(b, v) || changed
	}
	return changed
}

// applyTo is apply for a coercion that may be nil.
func (c *coercion) applyTo(b *budget, v *value) bool { return c != nil && c.apply(b, v) }

// applyUnion coerces to the first member that matches after its coercion.
func applyUnion(b *budget, members []unionMember, v *value) bool {
	for _, m := range members {
		if m.alone == nil {
			continue
		}
		left := b.copies
		candidate := v.clone(b)
		changed := m.applyTo(b, &candidate)
		fits := b.fits(m.alone, &candidate)
		b.copies = left // the copy is dropped, or takes the place of the value
		if fits {
			if changed {
				*v = candidate
			}
			return changed
		}
	}
	return false
}

func (c *coercion) applyTypes(b *budget, v *value) bool {
	if !b.spend(len(v.str) / 8) {
		return false
	}
	if len(c.types) > 1 && slices.ContainsFunc(c.types, v.isA) {
		return c.plainInteger(v)
	}
	for _, t := range c.types {
		if coerceScalar(v, t) {
			return true
		}
	}
	return c.plainInteger(v)
}

// plainInteger rewrites an integer such as 5.0 or 5e0 as 5, which readers in languages other than JavaScript expect.
func (c *coercion) plainInteger(v *value) bool {
	if v.kind != kindNumber || !isInteger(v.num) || !slices.Contains(c.types, "integer") {
		return false
	}
	plain := formatNumber(v.num)
	if isPlain(v.str) || !isPlain(plain) {
		return false
	}
	v.str = plain
	return true
}

func isPlain(literal string) bool {
	for _, c := range []byte(literal) {
		if c != '-' && !isDigit(c) {
			return false
		}
	}
	return true
}

// applyMembers coerces properties in the schema's order, then the other members.
func (c *coercion) applyMembers(b *budget, v *value) (changed bool) {
	for _, p := range c.properties {
		if !b.spend(1 + len(v.elems)) {
			break
		}
		if m := v.member(p.name); m != nil {
			changed = p.apply(b, m) || changed
		}
	}
	if c.additional != nil {
		for i := range v.elems {
			if !c.known[v.elems[i].key] {
				changed = c.additional.apply(b, &v.elems[i].val) || changed
			}
		}
	}
	return changed
}

func (c *coercion) applyItems(b *budget, v *value) (changed bool) {
	for i := range v.elems {
		item := c.items
		if i < len(c.tuple) {
			item = c.tuple[i]
		}
		changed = item.applyTo(b, &v.elems[i].val) || changed
	}
	return changed
}

// coerceScalar converts a scalar to the named type if possible, and reports whether it did.
func coerceScalar(v *value, typ string) bool {
	switch typ {
	case "number", "integer":
		return coerceNumber(v, typ == "integer")
	case "boolean":
		return coerceBool(v)
	case "string":
		return coerceString(v)
	case "null":
		if v.kind == kindFalse || v.kind == kindNumber && v.num == 0 || v.kind == kindString && v.str == "" {
			*v = value{kind: kindNull}
			return true
		}
	}
	return false
}

func coerceNumber(v *value, integer bool) bool {
	switch v.kind {
	case kindNull, kindFalse:
		*v = numberValue(0)
	case kindTrue:
		*v = numberValue(1)
	case kindString:
		f, ok := parseNumber(v.str)
		if !ok || integer && !isInteger(f) {
			return false
		}
		*v = numberValue(f)
	default:
		return false
	}
	return true
}

func numberValue(f float64) value { return value{kind: kindNumber, num: f, str: formatNumber(f)} }

func coerceBool(v *value) bool {
	switch {
	case v.kind == kindNull, v.kind == kindString && v.str == "false", v.kind == kindNumber && v.num == 0:
		*v = value{kind: kindFalse}
	case v.kind == kindString && v.str == "true", v.kind == kindNumber && v.num == 1:
		*v = value{kind: kindTrue}
	default:
		return false
	}
	return true
}

func coerceString(v *value) bool {
	switch v.kind {
	case kindNull:
		*v = value{kind: kindString}
	case kindFalse:
		*v = value{kind: kindString, str: "false"}
	case kindTrue:
		*v = value{kind: kindString, str: "true"}
	case kindNumber:
		*v = value{kind: kindString, str: formatNumber(v.num)}
	default:
		return false
	}
	return true
}
