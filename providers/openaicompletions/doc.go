// Package openaicompletions speaks openai-completions: POST /chat/completions as OpenAI made it, and as most other
// vendors, routers and local servers do since. Where they differ, [Compat] says how; what it is for a model follows
// from the model's provider and base URL, and the catalogue can set each flag.
//
// A server of one's own needs a model with this API, its base URL up to /v1, and any key that it does not look at.
// Ollama, vLLM, llama.cpp and LM Studio take what OpenAI takes; where a chat template knows no role developer, say so:
//
//	{"supportsDeveloperRole": false, "supportsStore": false, "maxTokensField": "max_tokens"}
//
// # What OpenAI's SDK does here, and what not
//
// OpenAI's SDK sends the request: it knows the URL, the key's header, and when and after which wait to try again. The
// body it sends is this package's own, because half of the dialect has no member in the SDK's types: reasoning_content,
// reasoning_details, cache_control, thinking, enable_thinking, chat_template_kwargs, provider, and a content of null.
//
// The response is not read by the SDK either. Its decoder takes a chunk with "error": null for a failure, loses a last
// event that no blank line follows, knows no CR as the end of a line, and makes U+FFFD of an emoji whose halves come in
// two chunks. Servers do all of this, and most of it is recorded.
//
// # The reply
//
// There is one block of thinking and one of text, however they alternate, and one for each tool call. All end when the
// stream ends. A body that ends before the reply does is an error.
package openaicompletions
