// Package gemini is the code that google-generative-ai and google-vertex share: the body of generateContent and the
// reading of its stream.
//
// It is a plain HTTP client and does not use the vendor's SDK (google.golang.org/genai), because the SDK mishandles
// replies that vendors send: it yields comments between events as errors, ends a stream whose connection was cut as if
// it were complete, fails on a signature that is not base64, and loses members and their order in an error's body.
package gemini
