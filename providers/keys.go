package providers

import "slices"

// keyVariables lists the environment variables that may hold a provider's key, the most specific one first. Bedrock and
// Vertex accept other credentials too, which their packages find.
var keyVariables = map[string][]string{
	"amazon-bedrock":         {"AWS_BEARER_TOKEN_BEDROCK"},
	"anthropic":              {"ANTHROPIC_API_KEY"},
	"azure-openai-responses": {"AZURE_OPENAI_API_KEY"},
	"cerebras":               {"CEREBRAS_API_KEY"},
	"deepseek":               {"DEEPSEEK_API_KEY"},
	"fireworks":              {"FIREWORKS_API_KEY"},
	"google":                 {"GEMINI_API_KEY", "GOOGLE_API_KEY"},
	"google-vertex":          {"GOOGLE_CLOUD_API_KEY"},
	"groq":                   {"GROQ_API_KEY"},
	"huggingface":            {"HF_TOKEN"},
	"minimax":                {"MINIMAX_API_KEY"},
	"mistral":                {"MISTRAL_API_KEY"},
	"moonshotai":             {"MOONSHOT_API_KEY"},
	"openai":                 {"OPENAI_API_KEY"},
	"openrouter":             {"OPENROUTER_API_KEY"},
	"together":               {"TOGETHER_API_KEY"},
	"vercel-ai-gateway":      {"AI_GATEWAY_API_KEY"},
	"xai":                    {"XAI_API_KEY"},
	"zai":                    {"ZAI_API_KEY"},
}

// KeyVariables returns the environment variables that may hold a provider's key, in order of precedence; none for an
// unknown provider.
func KeyVariables(provider string) []string { return slices.Clone(keyVariables[provider]) }

// KeyFromEnv returns the provider's key from an environment, "" if there is none.
func KeyFromEnv(provider string, getenv func(name string) string) string {
	for _, name := range keyVariables[provider] {
		if key := getenv(name); key != "" {
			return key
		}
	}
	return ""
}
