// Package openaicompletions implements the API openai-completions: POST /chat/completions as OpenAI introduced it,
// and as most other vendors, routers and local servers offer it. [Compat] describes their differences. Its values for
// a model are derived from the model's provider and base URL, and the catalogue can set each flag.
//
// For your own server, add a model with this API, its base URL up to /v1, and any key that the server ignores.
// Ollama, vLLM, llama.cpp and LM Studio accept what OpenAI accepts. If a chat template does not know the role
// developer, set:
//
//	{"supportsDeveloperRole": false, "supportsStore": false, "maxTokensField": "max_tokens"}
//
// # What OpenAI's SDK does here, and what it does not
//
// OpenAI's SDK sends the request: it knows the URL, the header of the key, and when to retry after which wait. This
// package writes the body, because half of the dialect has no field in the SDK's types: reasoning_content,
// reasoning_details, cache_control, thinking, enable_thinking, chat_template_kwargs, provider, and a content of null.
//
// This package also reads the response. The SDK's decoder treats a chunk with "error": null as a failure, loses a
// last event that is not followed by a blank line, does not accept CR as a line end, and replaces an emoji that is
// split between two chunks by U+FFFD. Servers do all of this, and most of it is recorded in tests.
//
// # The reply
//
// There is one block of thinking and one of text, however they alternate, and one block per tool call. All end when
// the stream ends. If the body ends before the reply does, that is an error.
package openaicompletions
