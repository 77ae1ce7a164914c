package assemble

import (
	"net/url"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/providers"
)

// minSecret is the shortest text that is taken for a secret. Below it are words that people give where a local server
// wants no key ("EMPTY", "ollama", "lm-studio"); to blot those out would spoil the text and hide nothing.
const minSecret = 10

const redacted = "[redacted]"

// secretHeaders are the headers whose values are keys.
var secretHeaders = []string{
	"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cf-aig-authorization", "cookie",
}

// secretsOf returns what must not be in an error text of the request.
func secretsOf(req *providers.Request) []string {
	secrets := []string{req.APIKey}
	for _, headers := range []map[string]string{req.Model.Headers, req.Headers} {
		for name, value := range headers {
			if slices.Contains(secretHeaders, strings.ToLower(name)) {
				_, token, _ := strings.Cut(value, " ")
				secrets = append(secrets, value, token) // the token alone too, without its scheme
			}
		}
	}
	return secrets
}

// redact blots out the secrets, also where they stand as a part of a URL.
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
