package mcp

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/loopbus/loopbus/schemas/redact"
)

// minSecret is the least length in bytes of a value that is removed: to remove every "1" from a text would hide
// nothing.
const minSecret = 6

// minSegment is the least length in bytes of a segment of a URL's path that may be a secret: shorter ones are words.
const minSegment = 16

// redactor removes secrets from texts that are logged or reported.
type redactor struct {
	secrets []string // the longest first: one may be part of another
	replace *strings.Replacer
}

func newRedactor(values []string) redactor {
	var secrets []string
	for _, s := range values {
		_, token, _ := strings.Cut(s, " ") // Bearer and the like
		for _, part := range append(strings.Split(s, "\n"), s, token) {
			if len(part) >= minSecret {
				secrets = append(secrets, forms(part)...)
			}
		}
	}
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	secrets = slices.Compact(secrets)
	var pairs []string
	for _, s := range secrets {
		pairs = append(pairs, s, "***")
	}
	return redactor{secrets, strings.NewReplacer(pairs...)}
}

// forms returns a secret as texts may have it: plain, quoted as in Go and in JSON, and escaped as in URLs.
func forms(s string) []string {
	list := []string{s, url.QueryEscape(s), url.PathEscape(s)}
	quoted, _ := json.Marshal(s) // cannot fail
	for _, q := range []string{strconv.Quote(s), string(quoted)} {
		list = append(list, q[1:len(q)-1])
	}
	return list
}

// urlSecrets returns what may be secret in a URL: the values of its query, and the long segments of its path.
func urlSecrets(text string) (secrets []string) {
	u, err := url.Parse(text)
	if err != nil {
		return nil
	}
	for segment := range strings.SplitSeq(u.EscapedPath(), "/") {
		if plain, err := url.PathUnescape(segment); err == nil && len(segment) >= minSegment {
			secrets = append(secrets, segment, plain)
		}
	}
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, value, named := strings.Cut(pair, "=")
		if !named {
			value = name
		}
		secrets = append(secrets, value)
		if plain, err := url.QueryUnescape(value); err == nil {
			secrets = append(secrets, plain)
		}
	}
	return secrets
}

func (r redactor) text(s string) string { return redact.Through(s, r.replace.Replace) }

// longest returns the length of the longest secret. A text that is cut has to be longer by that than what is shown of
// it, so that a secret at the cut is seen as a whole.
func (r redactor) longest() int {
	if len(r.secrets) == 0 {
		return 0
	}
	return len(r.secrets[0])
}

// head returns the first bytes of a text, at most most, without the secrets. A secret that begins there and ends later
// is left out.
func (r redactor) head(s string, most int) string {
	if begin, _ := r.across(s, most); begin < len(s) {
		s = s[:begin]
	}
	return r.text(s)
}

// tail is head for the last bytes.
func (r redactor) tail(s string, most int) string {
	if over := len(s) - most; over > 0 {
		_, end := r.across(s, over)
		s = s[end:]
	}
	return r.text(s)
}

// across returns the part of a text around a position that no cut may divide: all secrets that contain the position.
func (r redactor) across(s string, at int) (begin, end int) {
	begin, end = min(at, len(s)), min(at, len(s))
	for again := true; again; {
		again = false
		for _, secret := range r.secrets {
			from := max(begin-len(secret)+1, 0)
			i := strings.Index(s[from:min(end+len(secret)-1, len(s))], secret)
			if i < 0 || from+i >= begin && from+i+len(secret) <= end {
				continue
			}
			begin, end, again = min(begin, from+i), max(end, from+i+len(secret)), true
		}
	}
	return begin, end
}

// maxError is how many bytes of an error are kept: it repeats what the server says, up to a whole message.
const maxError = 64 << 10

// err returns an error with the same text, up to maxError, without the secrets. It does not wrap the original, which
// contains them.
func (r redactor) err(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(r.head(err.Error(), maxError))
}
