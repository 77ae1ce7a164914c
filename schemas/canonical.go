package schemas

import (
	"bytes"
	"encoding/json"
	"regexp"
	"unicode/utf8"
)

// Every tool turn brings one tool request and one tool result, nearly all from workers and runners of ours. Going
// through their schemas costs more than all the rest of taking them in. What this file accepts, the schemas accept: a
// payload that is byte for byte what we would have written for what it says has no member too many, too few or twice, so
// only the values remain to be checked. Whatever is not accepted here goes through its schema.

var callKeyRE = regexp.MustCompile(`^c[1-9][0-9]{0,19}$`)

// maxInteger is the largest integer that every JSON reader keeps exactly.
const maxInteger = 1<<53 - 1

// canonical decodes a payload into v, and reports whether v would be written just so.
func canonical(payload []byte, v any) bool {
	if !utf8.Valid(payload) || json.Unmarshal(payload, v) != nil {
		return false
	}
	written, err := marshalPlain(v)
	return err == nil && bytes.Equal(written, payload)
}

// canonicalResult reads a tool_result that needs no schema.
func canonicalResult(payload []byte) (id string, r *ToolResponse, ok bool) {
	var w ToolAnswer
	if !canonical(payload, &w) || utf8.RuneCountInString(w.ID) > MaxCommandID || !w.sound() {
		return "", nil, false
	}
	return w.ID, &w.ToolResponse, true
}

func (r *ToolResponse) sound() bool {
	return callKeyRE.MatchString(string(r.Call)) && len(r.ToolCallID) <= MaxCommandID && CheckToken("", r.ToolName) == nil &&
		inRange(r.DurationMs) && len(r.Worker) <= MaxCommandID && r.Result.sound()
}

// sound accepts results of plain text; images are checked by their schema.
func (r *ToolResult) sound() bool {
	if r.Content == nil {
		return false
	}
	for _, c := range r.Content {
		if _, ok := c.(Text); !ok {
			return false
		}
	}
	return len(r.Details) == 0 || strict(r.Details)
}

// canonicalRequest reports whether a tool request needs no schema.
func canonicalRequest(payload []byte) bool {
	var r ToolRequest
	if !canonical(payload, &r) {
		return false
	}
	if len(r.Arguments) == 0 || r.Arguments[0] != '{' {
		return false
	}
	known := r.Effect == "" || r.Effect == EffectUnsafe || r.Effect.Repeatable()
	return known && CheckSession(r.Session) == nil && r.RunID != "" && len(r.RunID) <= MaxCommandID &&
		len(r.TurnID) <= MaxCommandID && callKeyRE.MatchString(string(r.Call)) && r.Queue().Check() == nil &&
		inRange(r.TimeoutMs) && r.StartSeq >= 1 && r.StartSeq <= maxInteger && len(r.TraceParent) <= MaxCommandID &&
		(r.ReplyTo == "" || replyRE.MatchString(r.ReplyTo)) && strict(r.Arguments)
}

func inRange(n int64) bool { return n >= 0 && n <= maxInteger }

func strict(raw json.RawMessage) bool {
	_, err := decodeStrict(raw)
	return err == nil
}
