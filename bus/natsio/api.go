package natsio

import (
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// APIPrefix returns the prefix of the subjects of the JetStream API for js, with its trailing dot.
func APIPrefix(js jetstream.JetStream) string {
	o := js.Options()
	switch {
	case o.APIPrefix != "":
		return o.APIPrefix + "."
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	}
	return "$JS.API."
}

// Literal reports whether a subject of a stored message, used as a filter, matches the messages of that subject and no
// others. A server that was made to answer at a reply subject with wildcards stores its answer under that subject: as
// the filter of a purge, say, it would match other messages. No filter matches a subject that contains the character
// DEL: a server does not list it, deliver it to a consumer with a filter, limit its messages or purge it.
func Literal(subject string) bool {
	if strings.Contains(subject, "\x7f") {
		return false
	}
	for token := range strings.SplitSeq(subject, ".") {
		if token == "" || token == "*" || token == ">" {
			return false
		}
	}
	return true
}

// KeySubject returns the subject on which a value of a key-value bucket is published. With a JetStream domain, that is
// below the prefix of the API.
func KeySubject(js jetstream.JetStream, bucket, key string) string {
	subject := "$KV." + bucket + "." + key
	if prefix := APIPrefix(js); prefix != jetstream.DefaultAPIPrefix {
		return prefix + subject
	}
	return subject
}
