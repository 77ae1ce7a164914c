package agent_test

import (
	"encoding/json"
	"fmt"

	"github.com/loopbus/loopbus/schemas"
)

// This file brings JSON values into the normal form in which recordings are compared: what an implementation may fill
// in as it likes is taken out. Inside details, arguments and error texts nothing is touched.

// An object is a JSON object as encoding/json decodes it.
type object = map[string]any

// jsonValue is v as encoding/json decodes what v encodes to.
func jsonValue(v any) any {
	data, err := schemas.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		panic(fmt.Sprintf("decode %s: %v", data, err))
	}
	return out
}

// jsonText is v on one line.
func jsonText(v any) string {
	data, err := schemas.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func normalEvent(v any) any {
	e, ok := v.(object)
	if !ok {
		return v
	}
	switch schemas.EventType(fmt.Sprint(e["type"])) {
	case schemas.EventMessageUpdate:
		delete(e, "message")
		if inner, ok := e["assistantMessageEvent"].(object); ok {
			delete(inner, "partial")
		}
	case schemas.EventMessageStart, schemas.EventMessageEnd:
		normalMessage(e["message"])
	case schemas.EventTurnEnd:
		normalMessage(e["message"])
		normalMessages(e["toolResults"])
	case schemas.EventAgentEnd:
		normalMessages(e["messages"])
	case schemas.EventToolExecutionUpdate:
		normalResult(e["partialResult"])
	case schemas.EventToolExecutionEnd:
		normalResult(e["result"])
	}
	return e
}

func normalMessages(v any) any {
	list, _ := v.([]any)
	for _, m := range list {
		normalMessage(m)
	}
	return v
}

// normalMessage also gives content that is a plain string its other form, one text block: to pi they mean the same.
func normalMessage(v any) any {
	m, ok := v.(object)
	if !ok {
		return v
	}
	for _, member := range []string{"timestamp", "api", "provider", "model"} {
		delete(m, member)
	}
	if m["usage"] != nil && allZero(m["usage"]) {
		delete(m, "usage")
	}
	if text, ok := m["content"].(string); ok {
		m["content"] = []any{object{"type": "text", "text": text}}
	}
	dropNullDetails(m)
	return v
}

func normalResult(v any) any {
	r, ok := v.(object)
	if !ok {
		return v
	}
	if r["terminate"] != true {
		delete(r, "terminate")
	}
	dropNullDetails(r)
	return v
}

func dropNullDetails(o object) {
	if o["details"] == nil {
		delete(o, "details")
	}
}

func allZero(v any) bool {
	switch v := v.(type) {
	case float64:
		return v == 0
	case object:
		for _, member := range v {
			if !allZero(member) {
				return false
			}
		}
	}
	return true
}

// normalExpected brings what was recorded into the same form. It nearly is in it; only plain string content is not.
func normalExpected(expected object) {
	for _, e := range list(expected, "events") {
		normalEvent(e)
	}
	for section, member := range map[string]string{"llmCalls": "messages", "calls": "returned"} {
		for _, entry := range list(expected, section) {
			normalMessages(entry.(object)[member])
		}
	}
	if state, ok := expected["state"].(object); ok {
		normalMessages(state["messages"])
	}
}

// list is a section that is left out when empty.
func list(o object, section string) []any {
	l, _ := o[section].([]any)
	return l
}
