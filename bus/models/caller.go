package models

import (
	"encoding/json"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/natsio"
)

// requestInfo is the header that a NATS server sets, whatever the client sent, on a request from another account.
const requestInfo = "Nats-Request-Info"

// callerOf returns whose share a request uses. From another account it is the account: the reply subject is then the
// NATS server's own. In the server's account it is the user, by the inbox prefix of its own that a user with limited
// permissions has, and for the prefix that all may use the connection. A client that names an inbox of others cannot
// make use of that: its call ends as soon as nobody subscribes to the replies.
func callerOf(request *nats.Msg) string {
	prefix, rest, _ := strings.Cut(request.Reply, ".")
	switch prefix {
	case "_R_":
		var client struct {
			Account string `json:"acc"`
		}
		if json.Unmarshal([]byte(natsio.Added(request.Header, requestInfo)), &client) == nil && client.Account != "" {
			return "account " + client.Account
		}
	case "_INBOX":
		connection, _, _ := strings.Cut(rest, ".")
		return prefix + "." + connection
	}
	return prefix
}
