package assemble

import (
	"net/url"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/transport"
	"github.com/loopbus/loopbus/schemas/redact"
)

// minSecret is the length, in bytes, from which a key is treated as a secret. Users set shorter words as the key of a
// local server that needs none ("EMPTY", "ollama", "lm-studio"). To redact those would spoil the text and hide nothing.
const minSecret = 10

const redacted = "[redacted]"

// secretsOf returns what must not appear in an error text: the key of the request, and what its headers may have of
// credentials. A gateway's key has a header of any name.
func secretsOf(req *providers.Request) []string {
	secrets := []string{req.APIKey}
	for _, headers := range []map[string]string{req.Model.Headers, req.Headers} {
		for name, value := range headers {
			if !transport.IsPublic(name) {
				_, token, _ := strings.Cut(value, " ")
				secrets = append(secrets, value, token) // also the token without its scheme
			}
		}
	}
	return append(secrets, userOf(req.Model.BaseURL)...)
}

// userOf returns the user and the password in a URL, which may be one that cannot be parsed, as they are and unescaped.
func userOf(address string) (secrets []string) {
	_, rest, _ := strings.Cut(address, "://")
	host, _, _ := strings.Cut(rest, "/")
	at := strings.LastIndex(host, "@")
	if at < 0 {
		return nil
	}
	_, password, _ := strings.Cut(host[:at], ":")
	for _, secret := range []string{host[:at], password} {
		secrets = append(secrets, secret)
		if plain, err := url.PathUnescape(secret); err == nil {
			secrets = append(secrets, plain)
		}
	}
	return secrets
}

// redact replaces the secrets in text: those of the request, and what was sent. They may be escaped as part of a URL,
// or as JSON may be.
func (s *Stream) redact(text string) string { return redact.Through(text, s.redactPlain) }

func (s *Stream) redactPlain(text string) string {
	for _, secret := range slices.Concat(s.secrets, s.sent.Sent()) {
		if secret = strings.TrimSpace(secret); len(secret) < minSecret {
			continue
		}
		for _, form := range []string{secret, url.QueryEscape(secret)} {
			text = replaceStart(text, form, max(minSecret, len(form)/4))
		}
	}
	return text
}

// replaceStart replaces secret in text, and every start of it that has at least so many bytes: a text that was cut to a
// limit may end within the secret.
func replaceStart(text, secret string, least int) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, secret[:least])
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString(redacted)
		known := least
		for known < len(secret) && known-least < len(rest) && rest[known-least] == secret[known] {
			known++
		}
		text = rest[known-least:]
	}
}
