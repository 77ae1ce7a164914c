//go:build unix

package processes_test

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/integration/internal/process"
)

// Users of the servers. The tests do not look for the password of the admin, which only the test itself uses.
const (
	secretPassword = "pa55word-of-u"
	secretToken    = "t0ken-of-the-server"
	adminPassword  = "admin"
)

// place is a server, and the way in which programs connect to it.
type place struct {
	t     *testing.T
	url   string // where the programs connect
	admin []nats.Option
	watch string   // where the test connects; "" is url
	flags []string // of every program
	env   []string
	// secrets must not appear in outputs, logs or messages.
	secrets []string
}

func users() []*server.User {
	return []*server.User{{Username: "u", Password: secretPassword}, {Username: "admin", Password: adminPassword}}
}

// withTLS returns a server that requires a client certificate and a password or an nkey.
func withTLS(t *testing.T, nkey bool) *place {
	a := newAuthority(t)
	o := &server.Options{JetStream: true, Users: users(), TLS: true, TLSVerify: true, TLSConfig: a.server(),
		TLSTimeout: 10}
	p := &place{t: t, flags: []string{"--tls-ca", a.ca, "--tls-cert", a.crt, "--tls-key", a.keyPE}}
	if nkey {
		pair, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		public, err1 := pair.PublicKey()
		seed, err2 := pair.Seed()
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		o.Nkeys = []*server.NkeyUser{{Nkey: public}}
		p.flags = append(p.flags, "--nkey", p.file("user.nk", string(seed)))
		p.secrets = []string{string(seed)}
	} else {
		p.flags = append(p.flags, "--user", "u")
		p.env, p.secrets = []string{"LOOPBUS_PASSWORD=" + secretPassword}, []string{secretPassword}
	}
	p.url = bustest.NATS(t, o).ClientURL()
	p.admin = []nats.Option{nats.UserInfo("admin", adminPassword), nats.RootCAs(a.ca), nats.ClientCert(a.crt, a.keyPE)}
	p.flags = append(p.flags, "--nats", p.url)
	return p
}

// withToken returns a server whose token is in the environment, or in the URL.
func withToken(t *testing.T, inURL bool) *place {
	s := bustest.NATS(t, &server.Options{JetStream: true, Authorization: secretToken})
	p := &place{t: t, url: s.ClientURL(), admin: []nats.Option{nats.Token(secretToken)}, secrets: []string{secretToken}}
	if inURL {
		p.env = []string{"NATS_URL=" + strings.Replace(p.url, "//", "//"+secretToken+"@", 1)}
		return p
	}
	p.flags, p.env = []string{"--nats", p.url}, []string{"LOOPBUS_TOKEN=" + secretToken}
	return p
}

// withContext returns a leaf node without JetStream in front of a server with TLS, whose streams are in a domain. A
// NATS context has all settings: TLS from the first byte, user and password, and the domain or its API prefix.
func withContext(t *testing.T, member string) *place {
	hub := &server.Options{JetStream: true, JetStreamDomain: "hub", Users: users(), ServerName: "hub"}
	hub.LeafNode.Host, hub.LeafNode.Port = "127.0.0.1", server.RANDOM_PORT
	s := bustest.NATS(t, hub)
	p := &place{t: t, watch: s.ClientURL(), admin: []nats.Option{nats.UserInfo("admin", adminPassword)},
		secrets: []string{secretPassword}}
	a := newAuthority(t)
	leaf := &server.Options{ServerName: "leaf", Users: users(), TLS: true, TLSVerify: true, TLSConfig: a.server(),
		TLSTimeout: 10, TLSHandshakeFirst: true}
	leaf.LeafNode.Remotes = []*server.RemoteLeafOpts{{URLs: []*url.URL{{
		Scheme: "nats-leaf", User: url.UserPassword("admin", adminPassword),
		Host: fmt.Sprintf("127.0.0.1:%d", hub.LeafNode.Port),
	}}}}
	l := bustest.NATS(t, leaf)
	p.url = l.ClientURL()
	p.flags = []string{"--context", p.file("hub.json", fmt.Sprintf(`{"url":%q,"user":"u","password":%q,"ca":%q,"cert":%q,
		"key":%q,"tls_first":true,%s}`, p.url, secretPassword, a.ca, a.crt, a.keyPE, member))}
	return p
}

func (p *place) file(name, content string) string {
	p.t.Helper()
	path := filepath.Join(p.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// command returns the command of a program with the flags of the place.
func (p *place) command(program string, args ...string) process.Command {
	p.t.Helper()
	bin, err := commands()
	if err != nil {
		p.t.Fatal(err)
	}
	dir := p.t.TempDir()
	return process.Command{Name: program, Path: filepath.Join(bin, program), Args: append(args, p.flags...), Dir: dir,
		Env: append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "GORACE=atexit_sleep_ms=0"}, p.env...)}
}

// run runs a program to its end and returns its output.
func (p *place) run(program string, args ...string) (string, error) {
	p.t.Helper()
	c := p.command(program, args...)
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Dir, cmd.Env, cmd.Stdin = c.Dir, c.Env, strings.NewReader("go\n") // the input of a chat
	out, err := cmd.CombinedOutput()
	p.silent(program, string(out))
	return string(out), err
}

// silent checks that a text has no secret.
func (p *place) silent(where, text string) {
	p.t.Helper()
	for _, secret := range p.secrets {
		if strings.Contains(text, secret) {
			p.t.Errorf("%s: secret found in:\n%s", where, text)
		}
	}
}

// watchMessages checks until the test ends that no message has a secret. The function it returns counts the messages.
func (p *place) watchMessages() (count func() int) {
	p.t.Helper()
	where := p.watch
	if where == "" {
		where = p.url
	}
	nc, err := nats.Connect(where, p.admin...)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(nc.Close)
	var mu sync.Mutex
	n := 0
	_, err = nc.Subscribe(">", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		n++
		p.silent("the message "+m.Subject, fmt.Sprint(m.Subject, m.Header)+string(m.Data))
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return func() int {
		_ = nc.Flush()
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// TestConnecting connects a runner, a toolworker, a client and replay to a server in each supported way, and checks
// that none of the secrets is in their output, logs or messages.
func TestConnecting(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(*testing.T) *place{
		"TLS and password":    func(t *testing.T) *place { return withTLS(t, false) },
		"TLS and nkey":        func(t *testing.T) *place { return withTLS(t, true) },
		"token":               func(t *testing.T) *place { return withToken(t, false) },
		"token in the URL":    func(t *testing.T) *place { return withToken(t, true) },
		".creds":              func(t *testing.T) *place { return withCreds(t, false) },
		"context with .creds": func(t *testing.T) *place { return withCreds(t, true) },
		"context with domain": func(t *testing.T) *place { return withContext(t, `"jetstream_domain":"hub"`) },
		"context with API prefix": func(t *testing.T) *place {
			return withContext(t, `"jetstream_api_prefix":"$JS.hub.API"`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := at(t)
			messages := p.watchMessages()
			w := &world{t: t}
			script := p.file("script.json",
				`[{"toolCalls":[{"name":"bash","arguments":{"command":"echo reached"}}]},{"text":"all done"}]`)
			r := w.run(p.command("runner", "--id", "r1", "--model", "scripted", "--script", script, "--http", "127.0.0.1:0",
				"--log-json", "--log-level", "debug", "--partitions", "8"))
			r.awaitReady()
			worker := w.run(p.command("toolworker", "--id", "w1", "--tools", "bash", "--log-level", "debug"))
			for _, c := range []struct {
				program string
				args    []string
				want    string
			}{
				{"runner", []string{"run", "--session", "s1", "go"}, "all done"},
				{"replay", []string{"show", "s1"}, "reached"},
				{"replay", []string{"verify", "s1"}, "s1"},
			} {
				if out, err := p.run(c.program, c.args...); err != nil || !strings.Contains(out, c.want) {
					t.Errorf("%s %v: %v in:\n%s", c.program, c.args, err, out)
				}
			}
			p.silent("the runner's log", r.output())
			p.silent("the worker's log", worker.output())
			if n := messages(); n < 50 {
				t.Errorf("saw only %d messages", n)
			}
		})
	}
}

// TestNotConnecting checks that every program that a server refuses reports why, without the secret.
func TestNotConnecting(t *testing.T) {
	t.Parallel()
	const wrong = "wr0ng-secret"
	tlsServer, token := withTLS(t, false), withToken(t, false)
	bad := token.file("bad.nk", wrong)
	operated, stranger := withCreds(t, false), withCreds(t, false) // of another operator
	for name, p := range map[string]*place{
		"wrong password": {url: tlsServer.url, flags: tlsServer.flags, env: []string{"LOOPBUS_PASSWORD=" + wrong}},
		"wrong token":    {url: token.url, flags: token.flags, env: []string{"LOOPBUS_TOKEN=" + wrong}},
		"others' .creds": {flags: []string{"--nats", operated.url, "--creds", stranger.flags[3]}},
		"no .creds":      {flags: []string{"--nats", operated.url, "--creds", bad}},
		"no nkey":        {url: token.url, flags: []string{"--nats", token.url, "--nkey", bad}},
		"no CA":          {url: tlsServer.url, flags: []string{"--nats", tlsServer.url, "--user", "u"}},
		"no server":      {flags: []string{"--nats", "nats://u:" + wrong + "@127.0.0.1:1"}},
		"malformed":      {flags: []string{"--nats", "nats://u:" + wrong + "@%zz"}},
	} {
		p.t, p.secrets = t, append(stranger.secrets, wrong, secretPassword, secretToken)
		for program, args := range map[string][]string{"runner": {"serve"}, "toolworker": nil, "replay": {"list"}} {
			out, err := p.run(program, args...)
			if err == nil || len(bytes.TrimSpace([]byte(out))) == 0 {
				t.Errorf("%s: %s: %v, output %q", name, program, err, out)
			}
		}
	}
}
