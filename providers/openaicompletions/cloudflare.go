package openaicompletions

import (
	"fmt"
	"regexp"

	"github.com/loopbus/loopbus/providers"
)

// The ids of Cloudflare's providers.
const (
	cloudflareWorkers = "cloudflare-workers-ai"
	cloudflareGateway = "cloudflare-ai-gateway"
)

func isCloudflare(m *providers.Model) bool {
	return m.Provider == cloudflareWorkers || m.Provider == cloudflareGateway
}

var placeholder = regexp.MustCompile(`\{[A-Z_][A-Z0-9_]*\}`)

// cloudflareURL returns the base URL. It replaces each placeholder, for the account or the gateway, by the environment
// variable of that name. Without a variable for the gateway, it uses the one named default, which every account has.
func cloudflareURL(req *providers.Request) (string, error) {
	var missing error
	url := placeholder.ReplaceAllStringFunc(req.Model.BaseURL, func(braced string) string {
		name := braced[1 : len(braced)-1]
		value := req.Env(name)
		switch {
		case value != "":
			return value
		case name == "CLOUDFLARE_AI_GATEWAY_ID":
			return "default"
		}
		missing = fmt.Errorf("%s is required for provider %s but is not set", name, req.Model.Provider)
		return ""
	})
	return url, missing
}
