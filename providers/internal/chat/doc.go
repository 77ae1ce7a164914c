// Package chat is the code that openai-completions and mistral-conversations share: the parts of a request that are
// the same in both, and the reading of a streamed reply, which both send as server-sent events of JSON chunks that end
// with [DONE].
package chat
