package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
)

var linkRE = regexp.MustCompile(`(?m)^console: (http://[^/]+)/\?token=(\w+)$`)

// link waits for the link that a runner prints and returns its address and its token.
func (p *process) link() (site, token string) {
	p.t.Helper()
	eventually(p.t, "the link is printed", func() bool { return linkRE.MatchString(p.stdout.String()) })
	found := linkRE.FindStringSubmatch(p.stdout.String())
	return found[1], found[2]
}

// status asks for a page of a runner, with headers as "Name: value"; Host is one of them.
func statusOf(t *testing.T, url string, headers ...string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
	}
	client := http.Client{Timeout: deadline, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// The link that is printed opens the console and NATS behind it; nothing else does, and the log knows no token. A
// runner that is started again has the same link.
func TestTheConsolesDoor(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	begin := func() *process {
		return startServing(t, "--model", "rehearsal", "--log-level", "debug", "--store", store, "--http-name",
			"runner.example.com", "--bridge", "sse,ag-ui,gateway").ready()
	}
	p := begin()
	site, token := p.link()
	bearer := "Authorization: Bearer " + token
	for _, c := range []struct {
		path    string
		headers []string
		want    int
	}{
		{"/?token=" + token, nil, http.StatusSeeOther},
		{"/config.json", []string{bearer}, http.StatusOK},
		{"/config.json", []string{bearer, "Host: runner.example.com"}, http.StatusOK},
		{"/", []string{bearer}, http.StatusOK},
		{"/", nil, http.StatusUnauthorized},
		{"/config.json", nil, http.StatusUnauthorized},
		{"/config.json", []string{bearer + "x"}, http.StatusUnauthorized},
		{"/config.json", []string{bearer, "Host: evil.example.com"}, http.StatusMisdirectedRequest},
		{"/sessions/s1/events?after=0&follow=false", nil, http.StatusUnauthorized},
		{"/sessions/s1/events?after=0&follow=false", []string{bearer}, http.StatusOK},
		{"/sessions/s1/events?after=0", []string{bearer, "Origin: http://evil.example.com"}, http.StatusForbidden},
		{"/gateway?session=s1", nil, http.StatusUnauthorized},
		{"/gateway", []string{"Host: evil.example.com"}, http.StatusMisdirectedRequest},
		{"/ag-ui", []string{bearer}, http.StatusNotFound}, // it takes POST
		{"/nats", []string{bearer, "Host: evil.example.com"}, http.StatusMisdirectedRequest},
		{"/nats", []string{bearer, "Origin: http://evil.example.com"}, http.StatusForbidden},
		{"/nats", []string{bearer}, http.StatusUpgradeRequired},
		{"/healthz", []string{"Host: evil.example.com"}, http.StatusOK},
	} {
		if got := statusOf(t, site+c.path, c.headers...); got != c.want {
			t.Errorf("%s %q: %d, want %d", c.path, c.headers, got, c.want)
		}
	}
	url := strings.Replace(site, "http://", "ws://", 1)
	nc, err := nats.Connect(url, nats.ProxyPath("/nats"),
		nats.WebSocketConnectionHeaders(http.Header{"Authorization": {"Bearer " + token}}))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if m, err := nc.Request("agent.query.sessions", nil, deadline); err != nil || !strings.Contains(string(m.Data), "[]") {
		t.Errorf("a query by the WebSocket: %v, %v", m, err)
	}
	if _, err := nats.Connect(url, nats.ProxyPath("/nats")); err == nil {
		t.Error("the WebSocket is open to who has no token")
	}
	begun := time.Now()
	p.signal(syscall.SIGTERM)
	p.wantExit(0)
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("with a WebSocket open the runner took %s to stop", took)
	}
	if strings.Contains(p.stderr.String(), token) {
		t.Error("the log has the token")
	}
	info, err := os.Stat(filepath.Join(store, tokenFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token's file: %v, %v", info, err)
	}
	if _, again := begin().link(); again != token {
		t.Error("the link has not outlived the runner")
	}
}

// Beyond loopback there is a console only with a token, or where the NATS server itself asks who it is.
func TestBeyondLoopback(t *testing.T) {
	t.Parallel()
	const set = "a-token-that-was-set"
	everywhere := []string{"--listen", "127.0.0.1:0", "--http", "0.0.0.0:0", "--log-json", "--model", "rehearsal"}
	site := func(p *process) string {
		_, port, _ := strings.Cut(p.logged("health and metrics", "address"), "]:")
		return "http://127.0.0.1:" + port
	}
	p := start(t, nil, everywhere...)
	if got := statusOf(t, site(p)+"/config.json"); got != http.StatusNotFound {
		t.Errorf("without a token: %d", got)
	}
	got := p.logged("console not served: address is reachable from other machines", "reason")
	if !strings.Contains(got, "no token") {
		t.Errorf("the reason is %q", got)
	}

	p = start(t, []string{"LOOPBUS_HTTP_TOKEN=" + set}, everywhere...)
	for headers, want := range map[string]int{"Accept: */*": http.StatusUnauthorized,
		"Authorization: Bearer " + set: http.StatusOK} {
		if got := statusOf(t, site(p)+"/config.json", headers); got != want {
			t.Errorf("with a token and %q: %d, want %d", headers, got, want)
		}
	}
	said := p.stdout.String() + p.stderr.String()
	if strings.Contains(said, set) || !strings.Contains(said, "console: http://") {
		t.Errorf("the runner has said:\n%s", said)
	}

	g := newUsers(t)
	p = start(t, nil, "--nats", g, "--user", "runner", "--password", "runner's", "--http", "0.0.0.0:0", "--log-json",
		"--model", "rehearsal")
	if got := statusOf(t, site(p)+"/config.json"); got != http.StatusOK {
		t.Errorf("where NATS asks for credentials: %d", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, strings.Replace(site(p), "http", "ws", 1)+"/nats", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = ws.CloseNow()
	url := strings.Replace(site(p), "http", "ws", 1)
	if _, err := nats.Connect(url, nats.ProxyPath("/nats")); err == nil {
		t.Error("the runner's credentials are lent")
	}
	nc, err := nats.Connect(url, nats.ProxyPath("/nats"), nats.UserInfo("ann", "ann's"))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

// newUsers starts a server that knows two users and returns its URL.
func newUsers(t *testing.T) string {
	t.Helper()
	s := bustest.NATS(t, &server.Options{JetStream: true,
		Users: []*server.User{
			{Username: "runner", Password: "runner's"}, {Username: "ann", Password: "ann's"}}})
	return s.ClientURL()
}

// Runners on one machine need no setting about each other: the second one takes a free port and says so.
func TestTheDefaultPortIsTaken(t *testing.T) {
	t.Parallel()
	two := [2]*process{}
	for i := range two {
		two[i] = start(t, nil, "--listen", "127.0.0.1:0", "--log-json", "--model", "rehearsal").ready()
	}
	if a, b := two[0].logged("health and metrics", "address"), two[1].logged("health and metrics", "address"); a == b {
		t.Errorf("both are at %s", a)
	}
	two[1].logged("default address of --http is in use, using a free port", "address")
}
