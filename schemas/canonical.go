package schemas

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Every tool turn has one tool request and one tool result, nearly all from loopbus's own workers and runners.
// Validating them by their schemas costs more than all other steps of decoding. This file accepts only payloads that
// the schemas accept: one in the exact form that this package writes has no unknown, missing or repeated member
// ([writtenObject]), so that only the values remain to be checked. A payload that is not accepted here is validated by
// its schema.

// MaxInteger is the largest integer that every JSON reader keeps exactly, and the largest one that the schemas accept.
const MaxInteger = 1<<53 - 1

// canonicalResult decodes a tool_result that need not be validated by its schema.
func canonicalResult(payload []byte) (id string, r *ToolResponse, ok bool) {
	w := newWrittenObject(payload)
	r = new(ToolResponse)
	w.open()
	id = w.optionalText("id")
	r.Call = CallKey(w.neededText("call"))
	r.ToolCallID, r.ToolName = w.neededText("toolCallId"), w.neededText("toolName")
	w.need("result")
	r.Result = w.result()
	w.need("isError")
	r.IsError = w.flag()
	r.DurationMs = w.optionalCount("durationMs")
	r.Worker = w.optionalText("worker")
	r.Nonce = w.optionalText("nonce")
	w.close()
	if !w.complete() || utf8.RuneCountInString(id) > MaxCommandID || !r.sound() {
		return "", nil, false
	}
	return id, r, true
}

func (r *ToolResponse) sound() bool {
	return isCallKey(string(r.Call)) && len(r.ToolCallID) <= MaxCommandID && isToken(r.ToolName) &&
		len(r.Worker) <= MaxCommandID && (r.Nonce == "" || isToken(r.Nonce)) && r.Result.sound()
}

// sound reports whether the result consists of text only.
func (r *ToolResult) sound() bool {
	for _, c := range r.Content {
		if _, ok := c.(Text); !ok {
			return false
		}
	}
	return true
}

// canonicalRequest decodes a tool request that need not be validated by its schema.
func canonicalRequest(payload []byte) (r ToolRequest, ok bool) {
	w := newWrittenObject(payload)
	w.open()
	r.Session, r.RunID, r.TurnID = w.neededText("session"), w.neededText("runId"), w.neededText("turnId")
	r.Call = CallKey(w.neededText("call"))
	r.ToolCallID, r.ToolName = w.neededText("toolCallId"), w.neededText("toolName")
	r.Version, r.Workspace = w.optionalText("version"), w.optionalText("workspace")
	w.need("arguments")
	r.Arguments = w.json()
	r.Effect = Effect(w.optionalText("effect"))
	r.TimeoutMs = w.optionalCount("timeoutMs")
	r.StartSeq = uint64(w.optionalCount("startSeq"))
	r.TraceParent, r.ReplyTo = w.optionalText("traceparent"), w.optionalText("replyTo")
	r.Nonce, r.Revision = w.optionalText("nonce"), w.optionalText("revision")
	w.close()
	if !w.complete() || !r.sound() {
		return ToolRequest{}, false
	}
	return r, true
}

func (r ToolRequest) sound() bool {
	known := r.Effect == "" || r.Effect == EffectUnsafe || r.Effect.Repeatable()
	return known && r.Arguments[0] == '{' && isToken(r.Session) && r.RunID != "" && len(r.RunID) <= MaxCommandID &&
		len(r.TurnID) <= MaxCommandID && isCallKey(string(r.Call)) && r.Queue().Check() == nil && r.StartSeq >= 1 &&
		len(r.TraceParent) <= MaxCommandID && (r.Nonce == "" || isToken(r.Nonce)) &&
		(r.Revision == "" || isToken(r.Revision)) && (r.ReplyTo == "" || replyRE.MatchString(r.ReplyTo))
}

// isCallKey reports whether a key is one of [NewCallKey].
func isCallKey(key string) bool {
	const longest = 21 // c and twenty digits
	if len(key) < 2 || len(key) > longest || key[0] != 'c' || key[1] == '0' {
		return false
	}
	for i := 1; i < len(key); i++ {
		if !isDigit(key[i]) {
			return false
		}
	}
	return true
}

func strict(raw json.RawMessage) bool {
	if simple(raw) {
		return true
	}
	_, err := decodeStrict(raw)
	return err == nil
}

// simple reports whether raw is an object of a few texts, whole numbers and flags, of ASCII characters without escapes.
// The arguments of most calls are. [decodeStrict] accepts those too, in fifty times the time. A result of false means
// nothing.
func simple(raw []byte) bool {
	for _, c := range raw {
		if c < ' ' || c > '~' || c == '\\' {
			return false
		}
	}
	s := jsonScanner{text: raw}
	if !s.skip('{') {
		return false
	}
	var names [8][]byte
	for n := range names {
		if n == 0 && s.skip('}') {
			return s.pos == len(raw)
		}
		name, err := s.value()
		if err != nil || name[0] != '"' || !s.skip(':') {
			return false
		}
		for _, before := range names[:n] {
			if bytes.Equal(before, name) {
				return false
			}
		}
		names[n] = name
		s.next()
		if v, err := s.value(); err != nil || !simpleValue(v) {
			return false
		}
		if s.skip('}') {
			return s.pos == len(raw)
		}
		if !s.skip(',') {
			return false
		}
	}
	return false
}

func simpleValue(v []byte) bool {
	const most = 15 // digits of a number that is exact everywhere
	if v[0] == '"' || string(v) == "true" || string(v) == "false" || string(v) == "null" {
		return true
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(v) <= most && (v[0] != '0' || len(v) == 1)
}
