package natsio

import "github.com/nats-io/nats.go/jetstream"

// APIPrefix is how the subjects of the server's JetStream API begin for js, with its dot.
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

// KeySubject is the subject at which a value of a key-value bucket is published. A server that has JetStream in a
// domain takes it below the prefix of the API only.
func KeySubject(js jetstream.JetStream, bucket, key string) string {
	subject := "$KV." + bucket + "." + key
	if prefix := APIPrefix(js); prefix != jetstream.DefaultAPIPrefix {
		return prefix + subject
	}
	return subject
}
