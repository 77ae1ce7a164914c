package assemble

import (
	"net/url"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/providers"
)

// minSecret is the length, in bytes, from which a key is treated as a secret. Users set shorter words as the key of a
// local server that needs none ("EMPTY", "ollama", "lm-studio"). To redact those would spoil the text and hide nothing.
const minSecret = 10

const redacted = "[redacted]"

// secretHeaders are the headers whose values are keys.
var secretHeaders = []string{
	"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cf-aig-authorization", "cookie",
}

// secretsOf returns the keys of the request, which must not appear in an error text.
func secretsOf(req *providers.Request) []string {
	secrets := []string{req.APIKey}
	for _, headers := range []map[string]string{req.Model.Headers, req.Headers} {
		for name, value := range headers {
			if slices.Contains(secretHeaders, strings.ToLower(name)) {
				_, token, _ := strings.Cut(value, " ")
				secrets = append(secrets, value, token) // also the token without its scheme
			}
		}
	}
	return secrets
}

// redact replaces the secrets in text, also where they are escaped as part of a URL.
func (s *Stream) redact(text string) string {
	for _, secret := range s.secrets {
		if secret = strings.TrimSpace(secret); len(secret) < minSecret {
			continue
		}
		text = strings.ReplaceAll(text, secret, redacted)
		if escaped := url.QueryEscape(secret); escaped != secret {
			text = strings.ReplaceAll(text, escaped, redacted)
		}
	}
	return text
}
