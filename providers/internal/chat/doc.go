// Package chat is what openai-completions and mistral-conversations have in common: the parts of a request that both
// write alike, and the way both stream a reply, as server-sent events of JSON chunks up to [DONE].
package chat
