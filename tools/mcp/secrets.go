package mcp

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// minSecret is the least length in bytes of a value that is removed: to remove every "1" from a text would hide
// nothing.
const minSecret = 6

// redactor removes secrets from texts that are logged or reported.
type redactor struct{ replace *strings.Replacer }

func newRedactor(secrets []string) redactor {
	secrets = slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return len(s) < minSecret })
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // one may be part of another
	var pairs []string
	for _, s := range secrets {
		pairs = append(pairs, s, "***")
		if _, token, ok := strings.Cut(s, " "); ok && len(token) >= minSecret { // Bearer and the like
			pairs = append(pairs, token, "***")
		}
	}
	return redactor{strings.NewReplacer(pairs...)}
}

func (r redactor) text(s string) string { return r.replace.Replace(s) }

// err returns an error with the same text without the secrets. It does not wrap the original, which contains them.
func (r redactor) err(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(r.text(err.Error()))
}
