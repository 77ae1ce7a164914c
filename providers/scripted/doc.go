// Package scripted is a model that plays a script: for tests, benchmarks and demonstrations that need no vendor.
//
// Which response is played depends on the request alone, never on earlier calls: it is the one whose number is that of
// the replies already in the transcript, failed and aborted ones left out. So a call that is repeated after a crash
// gets the same response, and any number of sessions can play one script at once.
//
// # Files
//
// A script is a JSON list of responses, or an object with more to say:
//
//	{
//	  "loop": false,          begin again after the last response
//	  "chunkSize": 16,        characters in a delta, where a response does not list its events
//	  "chunkDelayMs": 0,      pause before each delta, likewise
//	  "responses": [...],     or, to choose by what the user said last:
//	  "scripts": [{"match": "regular expression", "loop": false, "responses": [...]}]
//	}
//
// Of several scripts the first is played whose expression matches the text of the last user message; one without
// matches always. Their responses are numbered from that message on. A response is a reply, streamed in chunks:
//
//	{"text": "..."}
//	{"thinking": "...", "text": "...",
//	 "toolCalls": [{"name": "read", "arguments": {"path": "go.mod"}, "id": "optional"}]}
//
// or, to say exactly what the stream delivers, its events and its final message as pi writes them:
//
//	{"events": [{"type": "start"}, {"delayMs": 50},
//	            {"type": "text_delta", "contentIndex": 0, "delta": "Hi"}, {"type": "done"}],
//	 "message": {"content": [{"type": "text", "text": "Hi"}], "stopReason": "stop",
//	             "usage": {...}, "errorMessage": "..."}}
//
// Any response may begin with "fail": ["529 overloaded", ...], the error texts of its first attempts: what a retry
// looks like. After the last response, or where no script matches, the model answers with an error event.
package scripted
