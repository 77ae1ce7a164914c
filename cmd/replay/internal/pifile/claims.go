package pifile

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// ofClient returns the customType that a client has chosen, so that it does not say what was executed.
func ofClient(customType string) string {
	if customType == argsType {
		return "client:" + argsType
	}
	return customType
}

// messageOfClient is the same for a message whose role is no model's.
func messageOfClient(m schemas.Message) schemas.Message {
	c, ok := m.(*schemas.CustomMessage)
	var members map[string]json.RawMessage
	if !ok || json.Unmarshal(c.Raw, &members) != nil {
		return m
	}
	claimed := false
	for name, value := range members {
		var customType string
		if strings.EqualFold(name, "customType") && json.Unmarshal(value, &customType) == nil && customType == argsType {
			members[name], claimed = json.RawMessage(strconv.Quote(ofClient(argsType))), true
		}
	}
	raw, err := json.Marshal(members)
	if !claimed || err != nil {
		return m
	}
	return &schemas.CustomMessage{Role: c.Role, Raw: raw}
}
