package client_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

// startNATS starts a server without any loopbus setup.
func startNATS(t *testing.T, o *server.Options) string {
	t.Helper()
	o.JetStream = true
	return bustest.NATS(t, o).ClientURL()
}

// in returns options that name a context file of the nats command line with the given contents.
func in(t *testing.T, format string, args ...any) client.Options {
	t.Helper()
	file := filepath.Join(t.TempDir(), "c.json")
	if err := os.WriteFile(file, fmt.Appendf(nil, format, args...), 0o600); err != nil {
		t.Fatal(err)
	}
	return client.Options{Context: file}
}

func TestConnectWithCredentials(t *testing.T) {
	t.Parallel()
	byUser := startNATS(t, &server.Options{Username: "u", Password: "secret"})
	byToken := startNATS(t, &server.Options{Authorization: "secret"})
	over := in(t, `{"url":"nats://127.0.0.1:1","user":"u"}`)
	over.Dial.Token = "secret"
	for name, c := range map[string]struct {
		url string
		o   client.Options
	}{
		"user":                  {byUser, client.Options{Dial: dial.Settings{User: "u", Password: "secret"}}},
		"token":                 {byToken, client.Options{Dial: dial.Settings{Token: "secret"}}},
		"context":               {"", in(t, `{"url":%q,"user":"u","password":"secret"}`, byUser)},
		"options over context":  {byToken, over},
		"context of token":      {byToken, in(t, `{"token":"secret"}`)},
		"inbox prefix of it":    {byToken, in(t, `{"token":"secret","inbox_prefix":"_INBOX_u"}`)},
		"several servers":       {"nats://127.0.0.1:1, " + byToken, client.Options{Dial: dial.Settings{Token: "secret"}}},
		"description beside it": {byToken, in(t, `{"description":"x","token":"secret","nsc":""}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl, err := client.Connect(c.url, c.o)
			if err != nil {
				t.Fatal(err)
			}
			cl.Close()
		})
	}
}

func TestConnectRefuses(t *testing.T) {
	t.Parallel()
	byUser := startNATS(t, &server.Options{Username: "u", Password: "secret"})
	for name, c := range map[string]struct {
		url  string
		o    client.Options
		want string
	}{
		"wrong password": {byUser, client.Options{Dial: dial.Settings{User: "u", Password: "wrong-secret"}},
			"uthorization"},
		"two credentials": {byUser, client.Options{Dial: dial.Settings{User: "u", Token: "secret"}}, "more than one kind"},
		"no such file":    {byUser, client.Options{Dial: dial.Settings{NKeySeedFile: "/no/such/secret"}}, "/no/such"},
		"nobody listens":  {"nats://u:secret@127.0.0.1:1", client.Options{}, "nats://xxxxx@127.0.0.1:1"},
		"malformed URL":   {"nats://u:secret@%zz", client.Options{}, "malformed URL"},
		"illegal prefix": {byUser, client.Options{Prefix: "a b", Dial: dial.Settings{User: "u", Password: "secret"}},
			"prefix"},
		"domain and prefix": {byUser, client.Options{Dial: dial.Settings{User: "u", Password: "secret", Domain: "d",
			APIPrefix: "x"}}, "domain"},
		"unknown context":    {"", client.Options{Context: "no-such-context"}, "no-such-context"},
		"path as context":    {"", client.Options{Context: "../secrets"}, "is not the name"},
		"no JSON in context": {"", in(t, "secret"), "is not a context in JSON"},
		"proxy in context":   {"", in(t, `{"socks_proxy":"socks://secret"}`), "socks_proxy"},
		"nsc in context":     {"", in(t, `{"nsc":"nsc://secret"}`), "setting nsc"},
		"JWT in context":     {"", in(t, `{"user_jwt":"secret"}`), "user_jwt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl, err := client.Connect(c.url, c.o)
			if err == nil {
				cl.Close()
				t.Fatal("connected")
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") && name != "no such file" &&
				name != "path as context" {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A client of a server that no runner has used gets ErrNoStreams.
func TestWithoutStreams(t *testing.T) {
	t.Parallel()
	c := connect(t, startNATS(t, &server.Options{}))
	for _, err := range c.Session("s1").Watch(bustest.Deadline(t), 1) {
		if !errors.Is(err, client.ErrNoStreams) {
			t.Errorf("watch: %v", err)
		}
	}
	short, err := client.New(c.NATS(), client.Options{RequestTimeout: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := short.Session("s1").Send(t.Context(), &schemas.Abort{}); err == nil {
		t.Error("a command was sent")
	}
}

func TestNewLeavesTheConnectionOpen(t *testing.T) {
	t.Parallel()
	nc, err := nats.Connect(bustest.Server(t).ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c, err := client.New(nc, client.Options{Prefix: "tenant.one"})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if nc.IsClosed() || c.NATS() != nc || c.Subjects().Prefix() != "tenant.one" {
		t.Error("the connection was closed, or is another one")
	}
}

// A cluster that has just started may not know its streams yet: who watches waits for them.
func TestAClusterKnowsItsStreamsLater(t *testing.T) {
	t.Parallel()
	url := startNATS(t, &server.Options{Cluster: server.ClusterOpts{Name: "three"}})
	c := connect(t, url)
	requests, err := c.NATS().SubscribeSync("$JS.API.CONSUMER.CREATE.AGENT_EVT.>")
	if err != nil {
		t.Fatal(err)
	}
	w := watch(t, c.Session("s1"), 1)
	if _, err := requests.NextMsgWithContext(bustest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	writer := bustest.Dial(t, bus.ConnOptions{URL: url})
	bustest.Setup(t, writer, streams.Options{})
	newAuthor(t, writer, "s1").begin()
	w.want("1 message_start")
}
