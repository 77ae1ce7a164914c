package bustest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// TakeConsumers creates as many consumers of a stream as the stream allows, as any client with the permission to create
// one can.
func TakeConsumers(t testing.TB, nc *nats.Conn, stream, filter string) {
	t.Helper()
	const atOnce = 100
	answers := make(chan *nats.Msg, atOnce)
	sub, err := nc.ChanSubscribe(nc.NewRespInbox(), answers)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	for made := 0; made < 20*1000; {
		for range atOnce {
			made++
			name := fmt.Sprint("taken", made)
			err := nc.PublishRequest("$JS.API.CONSUMER.CREATE."+stream+"."+name+"."+filter, sub.Subject,
				fmt.Appendf(nil, `{"stream_name":%q,"config":{"name":%q,"durable_name":%q,"mem_storage":true,`+
					`"ack_policy":"none","filter_subject":%q}}`, stream, name, name, filter))
			if err != nil {
				t.Fatal(err)
			}
		}
		refused := false
		for range atOnce {
			refused = strings.Contains(string(Within(t, answers).Data), `"err_code":10026`) || refused
		}
		if refused {
			return
		}
	}
	t.Fatalf("stream %s has no limit of consumers", stream)
}
