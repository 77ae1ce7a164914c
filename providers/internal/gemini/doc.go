// Package gemini is what google-generative-ai and google-vertex have in common: the body of generateContent and the
// reading of its stream.
//
// It is a plain HTTP client and not the vendor's SDK (google.golang.org/genai), because that cannot do what recorded
// traffic needs: it yields comments between events as errors, ends a stream whose connection was cut as if it were
// complete, fails on a signature that is no base64, and loses the members and the order of an error's body.
package gemini
