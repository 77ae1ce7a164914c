// Package providers is what the model APIs have in common: what a model and a request are, and the rules that are the
// same for every vendor. Each API is a package of its own below it.
//
// # An API
//
// An API package exports one function, a [StreamFunc]. It turns a [Request] into the vendor's HTTP request and what
// comes back into stream events. Nothing is kept between calls, so one function serves all sessions at once.
//
// A stream is start, blocks and exactly one done or error, which carries the whole message. Whatever goes wrong is an
// error event with stop reason error, or aborted once the context is done: a refused connection, an HTTP status, a body
// that is cut or stalls, JSON that is none, a panic of an SDK. The iterator itself never yields an error.
//
// # Around it
//
// [Transform] makes a transcript of one model fit another, [Model.Clamp] and [FitThinking] settle how much it thinks,
// [Model.Price] says what it cost, [IsContextOverflow] and [IsRetryable] what a failure means. These rules are checked
// against recordings of a reference implementation: testdata/FORMAT.md says how they are played, testdata/FINDINGS.md
// what they show, and testdata/DEVIATIONS.md where something better is wanted.
//
// The packages below never read the environment, the clock's zone or a file: what they need of the process comes with
// the request. The credentials that a machine in a cloud has by itself are the exception, see bedrockconversestream. No
// key and no secret header value gets into an event's error text.
package providers
