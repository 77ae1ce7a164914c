package natsio

import "strings"

// Instructs reports whether a header is an instruction to the server, or part of a status. Such a header must not be
// copied from a message that somebody else has written: the server would follow it with the permissions of whoever
// publishes the copy. One of them has the server publish to any subject (message tracing).
func Instructs(name string) bool {
	return name == "Status" || name == "Description" || len(name) >= 5 && strings.EqualFold(name[:5], "Nats-")
}
