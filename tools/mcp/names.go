package mcp

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

const (
	maxName   = 64 // of a tool, on the bus and at the vendors of models
	maxPrefix = 24 // of a server, part of maxName
	hashed    = 8  // hexadecimal digits of a hash in the name of a tool whose own name is too long
)

// Prefixes returns the prefix of each server's tool names: the server's name reduced to letters, digits and hyphens,
// at most 24 characters, beginning with a letter. A prefix has no underscore, so the first underscore of a tool name
// ends the prefix, and tools of different servers cannot have the same name. Servers that would share a prefix are
// numbered in order; the same servers in the same order always get the same prefixes.
func Prefixes(names []string) []string {
	var out []string
	for _, name := range names {
		prefix := legal(name, '-')
		if prefix == "" || !isLetter(prefix[0]) {
			prefix = "mcp-" + prefix
		}
		out = append(out, number(prefix, maxPrefix, "-", func(p string) bool { return slices.Contains(out, p) }))
	}
	return out
}

// toolNames returns the name on the bus of each tool of a server: <prefix>_<name>, of A-Z a-z 0-9 _ and -, at most 64
// characters. No name is that of one of the runner's own tools. If several tools would have the same name, those whose
// names had to be changed are numbered, in the order of the server's names: the same tools always get the same names.
func toolNames(prefix string, tools []string) map[string]string {
	sorted := slices.Clone(tools)
	slices.SortFunc(sorted, func(a, b string) int {
		return cmp.Or(cmp.Compare(b2i(!legalName(a, prefix)), b2i(!legalName(b, prefix))), cmp.Compare(a, b))
	})
	names, taken := map[string]string{}, map[string]bool{}
	for _, own := range schemas.ExtensionTools() {
		taken[own] = true
	}
	for _, tool := range slices.Compact(sorted) {
		name := prefix + "_" + legal(tool, '_')
		if len(name) > maxName {
			sum := sha256.Sum256([]byte(tool))
			name = name[:maxName-hashed-1] + "_" + hex.EncodeToString(sum[:])[:hashed]
		}
		name = number(name, maxName, "_", func(n string) bool { return taken[n] })
		names[tool], taken[name] = name, true
	}
	return names
}

func legalName(tool, prefix string) bool {
	return legal(tool, '_') == tool && len(prefix)+1+len(tool) <= maxName
}

// legal replaces characters that a name may not contain, and underscores unless by is one.
func legal(name string, by rune) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < 0x80 && (isLetter(byte(r)) || r >= '0' && r <= '9') || r == '-', r == '_' && by == '_':
			return r
		}
		return by
	}, name)
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// number shortens a name to most bytes. If the name is taken, it appends the first number from 2 that makes it unique.
func number(name string, most int, separator string, taken func(string) bool) string {
	name = name[:min(len(name), most)]
	for n, candidate := 2, name; ; n++ {
		if !taken(candidate) {
			return candidate
		}
		ending := separator + strconv.Itoa(n)
		candidate = name[:min(len(name), most-len(ending))] + ending
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
