package mcp

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// minSecret is the length in bytes below which a value is not looked for: taking every "1" out of a text hides nothing.
const minSecret = 6

// redactor takes secrets out of texts that are logged or reported.
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

// err returns an error that says the same without the secrets. What it wrapped is not kept: it would still say them.
func (r redactor) err(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(r.text(err.Error()))
}
