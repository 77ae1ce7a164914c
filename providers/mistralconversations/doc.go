// Package mistralconversations implements the API mistral-conversations: Mistral's POST /v1/chat/completions. It is
// like OpenAI's except that ids of tool calls have exactly nine characters, content comes in lists, and thinking is
// part of the content.
//
// Mistral has no official Go SDK, so this is a thin HTTP client. It sends a request once and leaves retries to the
// session, which waits longer.
//
// The reply has a block for each stretch of text or thinking and one for each tool call. If the body ends before the
// reply does, that is an error.
package mistralconversations
