// Package scripted is a model that plays a script, for tests, benchmarks and demonstrations without a vendor.
//
// The response depends only on the request, never on earlier calls: its number is the number of replies in the
// transcript, not counting failed and aborted ones. So a call that is repeated after a crash gets the same response,
// and any number of sessions can use one script concurrently.
//
// # Files
//
// A script is a JSON list of responses, or an object:
//
//	{
//	  "loop": false,          start again after the last response
//	  "chunkSize": 16,        characters per delta, if a response does not list its events
//	  "chunkDelayMs": 0,      pause before each delta, likewise
//	  "responses": [...],     or, to choose by the last user message:
//	  "scripts": [{"match": "regular expression", "loop": false, "responses": [...]}]
//	}
//
// The first script whose expression matches the text of the last user message is played; a script without an
// expression always matches. Responses are numbered from that message on. A response is a reply, streamed in chunks:
//
//	{"text": "..."}
//	{"thinking": "...", "text": "...",
//	 "toolCalls": [{"name": "read", "arguments": {"path": "go.mod"}, "id": "optional"}]}
//
// or, to control the stream exactly, its events and final message in pi's form:
//
//	{"events": [{"type": "start"}, {"delayMs": 50},
//	            {"type": "text_delta", "contentIndex": 0, "delta": "Hi"}, {"type": "done"}],
//	 "message": {"content": [{"type": "text", "text": "Hi"}], "stopReason": "stop",
//	             "usage": {...}, "errorMessage": "..."}}
//
// Any response may have "fail": ["529 overloaded", ...], the error texts of its first attempts, to exercise retries.
// After the last response, or if no script matches, the model answers with an error event.
package scripted
