package natsws_test

import (
	"slices"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/natsws"
)

// fill connects up to most times, with the options that each returns, until one is refused. It returns those
// that were admitted.
func fill(t *testing.T, addr string, most int, each func(n int) []nats.Option) (all []*nats.Conn) {
	t.Helper()
	for n := range most {
		nc, err := connect(addr, append(each(n), nats.NoReconnect())...)
		if err != nil {
			break
		}
		t.Cleanup(nc.Close)
		all = append(all, nc)
	}
	return all
}

// always returns the same options.
func always(o ...nats.Option) func(int) []nats.Option {
	return func(int) []nats.Option { return slices.Clip(o) }
}

// invented returns a token that differs each time.
func invented(n int) nats.Option { return nats.Token(string(rune('a' + n))) }

// nkey returns a user's key and the option to connect with it.
func nkey(t *testing.T) (string, nats.Option) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return public, nats.Nkey(public, pair.Sign)
}

// A user with all the connections that it may have leaves as many to others.
func TestAUserLeavesPlaces(t *testing.T) {
	t.Parallel()
	key, withKey := nkey(t)
	up := bustest.NATS(t, &server.Options{Nkeys: []*server.NkeyUser{{Nkey: key}}, Users: []*server.User{
		{Username: "ann", Password: "a"}, {Username: "bob", Password: "b"}}})
	_, addr := serve(t, natsws.Options{Upstream: natsws.Upstream{URL: up.ClientURL()}, MaxConnections: 32})
	bob := nats.UserInfo("bob", "b")
	bobs := fill(t, addr, 32, always(bob))
	if n := len(bobs); n != 16 {
		t.Errorf("a user has %d of 32 places", n)
	}
	if n := len(fill(t, addr, 32, always(withKey))); n != 8 {
		t.Errorf("a user with an nkey has %d of 16 places", n)
	}
	// What its server does not look at makes no other user of it.
	if n := len(fill(t, addr, 32, func(n int) []nats.Option { return []nats.Option{bob, invented(n)} })); n != 4 {
		t.Errorf("a user with invented tokens has %d of 8 places", n)
	}
	if n := len(fill(t, addr, 1, always(nats.UserInfo("ann", "a")))); n != 1 {
		t.Error("another user gets no place")
	}
	for _, nc := range bobs {
		nc.Close()
	}
	bustest.Eventually(t, "places that were released are there", func() bool {
		return len(fill(t, addr, 1, always(bob))) == 1
	})
}

// At a server that requires no credentials, names may be invented: the callers are addresses.
func TestInventedUsersLeavePlaces(t *testing.T) {
	t.Parallel()
	up := bustest.NATS(t, &server.Options{NoAuthUser: "all", Users: []*server.User{{Username: "all", Password: "x"}}})
	for what, s := range map[string]*server.Server{"open": bustest.NATS(t, &server.Options{}), "no_auth_user": up} {
		_, addr := serve(t, natsws.Options{Upstream: natsws.Upstream{URL: s.ClientURL()}, MaxConnections: 16})
		each := always()
		if what == "open" {
			each = func(n int) []nats.Option { return []nats.Option{nats.UserInfo(string(rune('a'+n)), "x")} }
		}
		if n := len(fill(t, addr, 16, each)); n != 8 {
			t.Errorf("%s: one address has %d of 16 places", what, n)
		}
	}
}
