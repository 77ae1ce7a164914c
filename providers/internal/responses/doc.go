// Package responses is what openai-responses and azure-openai-responses have in common: the request's body and the
// reading of the stream. The SDK sends the request; its decoder of events is not used, because it drops a last event
// that no blank line follows and destroys an emoji that is cut over two deltas.
//
// The items of a response are kept apart by their output index, so that they may overlap. Where the vendor's end event
// is missing the stream has failed, and an event response.incomplete ends it as a completed response with that status
// does.
package responses
