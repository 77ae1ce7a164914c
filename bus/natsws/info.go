package natsws

import (
	"encoding/json"
	"fmt"
)

// info is a server's INFO.
type info struct {
	TLSRequired  bool  `json:"tls_required"`
	TLSAvailable bool  `json:"tls_available"`
	AuthRequired bool  `json:"auth_required"`
	MaxPayload   int64 `json:"max_payload"`

	line []byte // INFO as sent to the client
}

// hidden are the members of INFO that concern the bridge's own connection, and addresses that a browser cannot use.
var hidden = []string{"tls_required", "tls_available", "tls_verify", "connect_urls", "ws_connect_urls", "ip",
	"client_ip"}

// parseInfo parses the JSON of an INFO.
func parseInfo(data []byte) (i info, err error) {
	var members map[string]json.RawMessage
	if err = json.Unmarshal(data, &i); err == nil {
		err = json.Unmarshal(data, &members)
	}
	if err != nil {
		return i, fmt.Errorf("the server's INFO is not JSON: %w", err)
	}
	for _, name := range hidden {
		delete(members, name)
	}
	shown, err := json.Marshal(members)
	if err != nil {
		return i, fmt.Errorf("write INFO: %w", err)
	}
	i.line = append(append([]byte("INFO "), shown...), "\r\n"...)
	return i, nil
}
