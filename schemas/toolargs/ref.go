package toolargs

import (
	"net/url"
	"strconv"
	"strings"
)

// resolver finds the schemas of a document that references name. It searches only the document itself.
type resolver struct {
	bases   map[*value]string // the base URI of each schema below an $id
	named   map[string]*value // by URI without fragment, and by URI with an anchor
	dynamic map[string]*value // the outermost $dynamicAnchor of a name
}

func newResolver(doc *value) *resolver {
	rs := &resolver{bases: map[*value]string{}, named: map[string]*value{"": doc}, dynamic: map[string]*value{}}
	rs.index(doc, "")
	return rs
}

// index visits the whole document, except for plain data.
func (rs *resolver) index(v *value, base string) {
	if v.kind == kindObject {
		if id, ok := stringAt(v, "$id"); ok {
			var fragment string
			base, fragment = splitRef(base, id)
			rs.name(base+fragment, v)
		}
		if anchor, ok := stringAt(v, "$anchor"); ok {
			rs.name(base+"#"+anchor, v)
		}
		if anchor, ok := stringAt(v, "$dynamicAnchor"); ok {
			rs.name(base+"#"+anchor, v)
			if rs.dynamic["#"+anchor] == nil {
				rs.dynamic["#"+anchor] = v
			}
		}
		if base != "" {
			rs.bases[v] = base
		}
	}
	for i := range v.elems {
		if key := v.elems[i].key; key != "const" && key != "enum" {
			rs.index(&v.elems[i].val, base)
		}
	}
}

func (rs *resolver) name(uri string, v *value) {
	if uri != "" && rs.named[uri] == nil {
		rs.named[uri] = v
	}
}

// splitRef resolves a reference against a base and splits it into the URI of a document and "#fragment".
func splitRef(base, ref string) (document, fragment string) {
	if i := strings.IndexByte(ref, '#'); i >= 0 {
		ref, fragment = ref[:i], ref[i:]
	}
	if fragment == "#" {
		fragment = ""
	}
	if ref == "" {
		return base, fragment
	}
	b, err := url.Parse(base)
	if err != nil {
		return ref, fragment
	}
	u, err := b.Parse(ref)
	if err != nil {
		return ref, fragment
	}
	return u.String(), fragment
}

// resolve returns the value that the reference in a schema names, or nil.
func (rs *resolver) resolve(from *value, ref string, dynamic bool) *value {
	if dynamic && rs.dynamic[ref] != nil {
		return rs.dynamic[ref]
	}
	document, fragment := splitRef(rs.bases[from], ref)
	if fragment != "" && !strings.HasPrefix(fragment, "#/") {
		if decoded, err := url.PathUnescape(fragment); err == nil {
			fragment = decoded
		}
		return rs.named[document+fragment]
	}
	return pointer(rs.named[document], fragment)
}

// pointer follows a JSON pointer in the form of a fragment, "#/a/b".
func pointer(v *value, fragment string) *value {
	path, err := url.PathUnescape(strings.TrimPrefix(fragment, "#"))
	if err != nil {
		return nil
	}
	for path != "" && v != nil {
		token := path[1:]
		if i := strings.IndexByte(token, '/'); i >= 0 {
			token = token[:i]
		}
		path = path[1+len(token):]
		v = v.child(strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~"))
	}
	return v
}

// child returns a member by name or an item by index.
func (v *value) child(token string) *value {
	if v.kind != kindArray {
		return v.member(token)
	}
	i, err := strconv.Atoi(token)
	if err != nil || i < 0 || i >= len(v.elems) {
		return nil
	}
	return &v.elems[i].val
}
