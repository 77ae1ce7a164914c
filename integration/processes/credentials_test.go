//go:build unix

package processes_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/loopbus/loopbus/bus/bustest"
)

// account signs the users of a server in operator mode.
type account struct {
	t   *testing.T
	key nkeys.KeyPair
}

func keyOf(t *testing.T, create func() (nkeys.KeyPair, error)) (key nkeys.KeyPair, public string) {
	t.Helper()
	key, err := create()
	if err == nil {
		public, err = key.PublicKey()
	}
	if err != nil {
		t.Fatal(err)
	}
	return key, public
}

// newAccount creates an account with storage limits, signed by the operator, in the directory of the server's resolver.
func newAccount(t *testing.T, operator nkeys.KeyPair, resolver server.AccountResolver, may jwt.JetStreamLimits,
) (*account, string) {
	t.Helper()
	key, name := keyOf(t, nkeys.CreateAccount)
	claims := jwt.NewAccountClaims(name)
	claims.Limits.JetStreamLimits = may
	encoded, err := claims.Encode(operator)
	if err == nil {
		err = resolver.Store(name, encoded)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &account{t, key}, name
}

// user creates a user and returns the content of its .creds file, and its seed.
func (a *account) user() (creds, seed string) {
	a.t.Helper()
	key, name := keyOf(a.t, nkeys.CreateUser)
	signed, err := jwt.NewUserClaims(name).Encode(a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	raw, err := key.Seed()
	if err != nil {
		a.t.Fatal(err)
	}
	file, err := jwt.FormatUserConfig(signed, raw)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(file), string(raw)
}

// withCreds returns a server that trusts an operator. Its users have .creds files, named by a flag or by a context.
func withCreds(t *testing.T, inContext bool) *place {
	t.Helper()
	operator, operatorName := keyOf(t, nkeys.CreateOperator)
	resolver := new(server.MemAccResolver)
	_, system := newAccount(t, operator, resolver, jwt.JetStreamLimits{})
	own, _ := newAccount(t, operator, resolver, jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit,
		DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit})
	p := &place{t: t}
	p.url = bustest.NATS(t, &server.Options{JetStream: true, TrustedKeys: []string{operatorName},
		AccountResolver: resolver, SystemAccount: system}).ClientURL()
	admin, _ := own.user()
	p.admin = []nats.Option{nats.UserCredentials(p.file("admin.creds", admin))}
	creds, seed := own.user()
	file := p.file("user.creds", creds)
	p.secrets = []string{seed}
	if inContext {
		p.flags = []string{"--context", p.file("operated.json", fmt.Sprintf(`{"url":%q,"creds":%q}`, p.url, file))}
	} else {
		p.flags = []string{"--nats", p.url, "--creds", file}
	}
	return p
}
