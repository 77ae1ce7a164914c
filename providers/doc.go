// Package providers contains the code that the model APIs share: the types of a model and a request, and the rules
// that are the same for every vendor. Each API is a package below it.
//
// # An API
//
// An API package exports one function, a [StreamFunc]. It converts a [Request] to the vendor's HTTP request, and the
// response to stream events. It keeps nothing between calls, so one function serves all sessions at once.
//
// A stream consists of start, blocks, and exactly one done or error, which contains the whole message. Every failure
// is an error event with stop reason error, or aborted once the context is done: a refused connection, an HTTP
// status, a body that is cut off or stalls, invalid JSON, a panic of an SDK. The iterator itself never yields an
// error.
//
// # Around it
//
// [Transform] adapts a transcript of one model for another. [Model.Clamp] and [FitThinking] determine how much the
// model thinks, and [Model.Price] what a reply costs. [IsContextOverflow] and [IsRetryable] classify failures. Tests
// check these rules against recordings of a reference implementation: testdata/FORMAT.md describes how they are
// replayed, testdata/FINDINGS.md what they show, and testdata/DEVIATIONS.md where this package deliberately differs.
//
// The packages below never read the environment, the time zone or a file: the request contains everything that they
// need from the process. The exceptions are the credentials of a cloud machine; see bedrockconversestream and
// googlevertex. No key and no secret header value appears in the error text of an event.
package providers
