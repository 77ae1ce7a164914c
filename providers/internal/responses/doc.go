// Package responses is the code that openai-responses and azure-openai-responses share: the body of a request and the
// reading of its stream. The SDK sends the request. Its event decoder is not used, because it drops a last event that
// no blank line follows, and destroys an emoji that is split between two deltas.
//
// The items of a response are told apart by their output index, so they may overlap. A stream without the vendor's
// final event has failed. The event response.incomplete counts as response.completed with the status incomplete.
package responses
