package permissions_test

import (
	"encoding/json"
	"errors"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/permissions"
	"github.com/loopbus/loopbus/schemas"
)

// pair is a key with its public name.
func pair(t *testing.T, create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
	t.Helper()
	key, err := create()
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return key, public
}

// operated starts a server that trusts an operator with one account, and returns its URL and the account's key.
func operated(t *testing.T) (string, nkeys.KeyPair) {
	t.Helper()
	op, opName := pair(t, nkeys.CreateOperator)
	account, accountName := pair(t, nkeys.CreateAccount)
	encoded, err := jwt.NewAccountClaims(accountName).Encode(op)
	if err != nil {
		t.Fatal(err)
	}
	resolver := &server.MemAccResolver{}
	if err := resolver.Store(accountName, encoded); err != nil {
		t.Fatal(err)
	}
	s := bustest.NATS(t, &server.Options{TrustedKeys: []string{opName}, AccountResolver: resolver})
	return s.ClientURL(), account
}

// The claims of each role, signed by an account, let a user do its own and nothing else.
func TestClaims(t *testing.T) {
	t.Parallel()
	url, account := operated(t)
	for _, r := range permissions.Roles() {
		u := users(r.Name)[0]
		key, public := pair(t, nkeys.CreateUser)
		u.NKey = public
		text, err := permissions.Claims(schemas.Subjects{}, u)
		if err != nil {
			t.Fatal(err)
		}
		claims := new(jwt.UserClaims)
		if err := json.Unmarshal([]byte(text), claims); err != nil {
			t.Fatal(err)
		}
		results := jwt.CreateValidationResults()
		if claims.Validate(results); len(results.Issues) > 0 {
			t.Errorf("%s: %v", r.Name, results.Issues[0])
		}
		signed, err := claims.Encode(account)
		if err != nil {
			t.Fatal(err)
		}
		seed, err := key.Seed()
		if err != nil {
			t.Fatal(err)
		}
		nc, err := nats.Connect(url, nats.UserJWTAndSeed(signed, string(seed)),
			nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		for _, subject := range allowed(t, u) {
			if err := errors.Join(nc.Publish(subject, nil), nc.FlushTimeout(10*time.Second), nc.LastError()); err != nil {
				t.Errorf("%s may not publish %s: %v", r.Name, subject, err)
			}
		}
		if slices.ContainsFunc(trusted(t, u), func(own string) bool { return covers(own, "agent.evt.s2") }) {
			continue
		}
		err = errors.Join(nc.Publish("agent.evt.s2", nil), nc.FlushTimeout(10*time.Second))
		if err != nil || !errors.Is(nc.LastError(), nats.ErrPermissionViolation) {
			t.Errorf("%s may publish agent.evt.s2: %v, %v", r.Name, err, nc.LastError())
		}
	}
}

// A shell reads the command of nsc as what the grant has.
func TestNSC(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	if err != nil && runtime.GOOS == "windows" {
		t.Skip("the command is for a POSIX shell, which every system but this one has")
	} else if err != nil {
		t.Fatal(err)
	}
	for _, r := range permissions.Roles() {
		u := users(r.Name)[0]
		text, err := permissions.NSC(schemas.Subjects{}, u)
		if err != nil {
			t.Fatal(err)
		}
		g, err := u.Grant(schemas.Subjects{})
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), shell, "-c", `nsc() { printf '%s\n' "$@"; }; `+text).Output()
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		words := strings.Split(strings.TrimSpace(string(out)), "\n")
		for flag, subjects := range map[string][]string{"--allow-pub": g.Publish, "--allow-sub": g.Subscribe} {
			var given []string
			for i, word := range words {
				if word == flag {
					given = append(given, words[i+1])
				}
			}
			if !slices.Equal(given, subjects) {
				t.Errorf("%s: %s has %v, want %v", r.Name, flag, given, subjects)
			}
		}
		if g.Responses != slices.Contains(words, "--allow-pub-response=1") {
			t.Errorf("%s: %v", r.Name, words)
		}
	}
}
