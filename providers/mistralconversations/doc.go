// Package mistralconversations speaks mistral-conversations: Mistral's POST /v1/chat/completions, which is like
// OpenAI's but for ids of tool calls of exactly nine characters, content in lists, and thinking as a part of the
// content.
//
// Mistral has no official Go SDK, so this is a thin HTTP client. It sends a request once: what is worth another attempt
// is left to the session, which waits better.
//
// The reply has a block for each stretch of text or thinking and one for each tool call. A body that ends before the
// reply does is an error.
package mistralconversations
