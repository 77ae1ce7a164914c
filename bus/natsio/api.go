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
