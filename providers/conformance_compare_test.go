package providers_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// recordedHeaders lists the request headers that are compared.
var recordedHeaders = []string{
	"content-type", "authorization", "x-api-key", "api-key", "x-goog-api-key", "anthropic-version", "anthropic-beta",
	"x-app", "session_id", "x-client-request-id", "x-session-affinity", "x-affinity", "x-initiator", "openai-intent",
	"copilot-vision-request", "cf-aig-authorization",
}

// roundedCosts compares costs with a tolerance. All other numbers must be equal.
var roundedCosts = cmp.FilterPath(func(p cmp.Path) bool {
	return strings.Contains(p.GoString(), `"cost"`) || len(p) > 1 && p.Index(1).String() == `["total"]`
}, cmpopts.EquateApprox(1e-9, 0))

// requestOf returns a request in the form of the recording.
func (r *recording) requestOf(sent sentRequest) object {
	headers := object{}
	for _, name := range append(slices.Clone(recordedHeaders), r.ObserveHeaders...) {
		if values := sent.Headers.Values(name); len(values) > 0 {
			headers[name] = strings.Join(values, ", ")
		}
	}
	if auth, _ := headers["authorization"].(string); strings.HasPrefix(auth, "AWS4-HMAC-SHA256 ") {
		headers["authorization"] = "{{SIGV4}}"
	}
	var body any
	if json.Unmarshal(sent.Body, &body) != nil {
		body = string(sent.Body)
	}
	return object{"method": sent.Method, "path": sent.Path, "headers": headers, "body": body}
}

// comparable normalises a request, so that requests that differ only in details that do not matter are equal.
func (r *recording) comparable(request any) any {
	req, ok := request.(object)
	if !ok {
		return request
	}
	headers, _ := req["headers"].(object)
	delete(headers, "anthropic-dangerous-direct-browser-access")
	body, _ := req["body"].(object)
	if system, ok := body["systemInstruction"].(object); ok && r.isGoogle() {
		delete(system, "role")
	}
	messages, _ := body["messages"].([]any)
	for _, m := range messages {
		if m, ok := m.(object); ok {
			r.comparableMessage(m)
		}
	}
	return parseEmbedded(req, func(name, _ string) bool { return name == "arguments" })
}

func (r *recording) comparableMessage(m object) {
	if r.API == "mistral-conversations" {
		delete(m, "prefix")
		for _, call := range asList(m["tool_calls"]) {
			delete(call.(object), "index")
		}
	}
	// Package schemas has one form of a user's content that is one text; recordings have two.
	if blocks := asList(m["content"]); m["role"] == "user" && len(blocks) == 1 {
		if block, ok := blocks[0].(object); ok && len(block) == 2 && block["type"] == "text" && len(r.singles) > 0 {
			m["content"] = block["text"]
		}
	}
}

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}

func (r *recording) isGoogle() bool { return strings.HasPrefix(r.API, "google-") }

// eventsOf returns the events in the form of the recording: with the arguments streamed so far, and without members
// that the recording does not have.
func eventsOf(events []schemas.StreamEvent) (list []any) {
	arguments := make(map[int]string)
	for _, e := range events {
		o := jsonValue(e).(object)
		delete(o, "id")
		delete(o, "toolName")
		delete(o, "failureCode")
		if e.Type == schemas.StreamToolCallDelta {
			arguments[e.ContentIndex] += e.Delta
			o["argumentsSoFar"] = jsonValue(providers.PartialArguments(arguments[e.ContentIndex]))
		}
		if e.Type == schemas.StreamStart {
			delete(o, "reason")
		}
		if call, ok := o["toolCall"].(object); ok {
			delete(call, "incomplete")
		}
		list = append(list, o)
	}
	return list
}

func messageOf(m *schemas.AssistantMessage) any {
	o := jsonValue(m).(object)
	delete(o, "timestamp")
	for _, block := range asList(o["content"]) {
		delete(block.(object), "incomplete")
	}
	return o
}

// embedded reports which strings contain JSON to compare as JSON, and where in them it begins.
func (r *recording) embedded(v any) any {
	v = parseEmbedded(v, func(name, text string) bool {
		switch name {
		case "thinkingSignature", "textSignature", "thoughtSignature":
			return strings.HasPrefix(text, "{")
		case "errorMessage":
			return r.isGoogle() && strings.HasPrefix(text, "{")
		case "delta":
			return r.isGoogle() && strings.HasPrefix(text, "{")
		}
		return false
	})
	if o, ok := v.(object); ok && (r.API == "anthropic-messages" || r.API == "mistral-conversations") {
		if text, ok := o["errorMessage"].(string); ok {
			if at := strings.IndexByte(text, '{'); at >= 0 {
				o["errorMessage"] = []any{text[:at], jsonInside(text[at:])}
			}
		}
	}
	return v
}

// parseEmbedded returns v with the strings that is selects parsed.
func parseEmbedded(v any, is func(name, text string) bool) any {
	switch v := v.(type) {
	case object:
		for name, member := range v {
			if text, ok := member.(string); ok && is(name, text) {
				v[name] = jsonInside(text)
			} else {
				v[name] = parseEmbedded(member, is)
			}
		}
	case []any:
		for i := range v {
			v[i] = parseEmbedded(v[i], is)
		}
	}
	return v
}

// jsonInside marks a parsed string, so that it does not equal a value that was not a string.
func jsonInside(text string) any {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	return object{"JSON in a string": v}
}

// bindGenerated replaces the placeholders of generated ids by the texts in their place. A text must not be empty, must
// always be the same for one placeholder, and must be different for different ones.
func bindGenerated(want, got any) (any, error) {
	bound := make(map[string]string)
	want = bind(want, got, bound)
	seen := slices.Sorted(maps.Values(bound))
	for i, id := range seen {
		if id == "" || i > 0 && seen[i-1] == id {
			return want, fmt.Errorf("generated ids %q", seen)
		}
	}
	return want, nil
}

func bind(want, got any, bound map[string]string) any {
	switch w := want.(type) {
	case string:
		g, ok := got.(string)
		if !ok || !strings.HasPrefix(w, "{{GENERATED:") {
			return want
		}
		if _, ok := bound[w]; !ok {
			bound[w] = g
		}
		return bound[w]
	case object:
		g, _ := got.(object)
		for name := range w {
			w[name] = bind(w[name], g[name], bound)
		}
	case []any:
		g := asList(got)
		for i := range w {
			if i < len(g) {
				w[i] = bind(w[i], g[i], bound)
			}
		}
	}
	return want
}

// compareText checks an error text by the rule of the case and returns the difference.
func compareText(rule any, want, got string, retryable bool) string {
	ok := false
	switch rule := rule.(type) {
	case nil:
		ok = got == want
	case string:
		ok = rule == "nonempty" && got != ""
	case object:
		if prefix, is := rule["prefix"].(string); is {
			ok = strings.HasPrefix(got, prefix)
		} else {
			ok = rule["class"] != nil && got != "" && retryable
		}
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("error text %q, want %q by rule %v", got, want, rule)
}

// sameBodies reports whether all requests were equal.
func sameBodies(sent []sentRequest) bool {
	for _, s := range sent[1:] {
		if !bytes.Equal(s.Body, sent[0].Body) {
			return false
		}
	}
	return true
}
