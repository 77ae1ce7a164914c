package mcp_test

import (
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/loopbus/loopbus/tools/mcp"
)

func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func env(name string) string {
	return map[string]string{"TOKEN": "t0ken-value", "DIR": "/data"}[name]
}

func TestParseConfig(t *testing.T) {
	t.Parallel()
	got, err := mcp.ParseConfig([]byte(`{"mcpServers":{
		"web":{"type":"http","url":"https://example.org/mcp","headers":{"Authorization":"Bearer ${TOKEN}"},"timeout":5},
		"files":{"command":"npx","args":["-y","files","${DIR}/x","${OTHER:-none}"],"env":{"KEY":"${TOKEN}"}},
		"off":{"command":"no","disabled":true}}}`), env)
	if err != nil {
		t.Fatal(err)
	}
	want := []mcp.ServerConfig{
		{Name: "files", Command: "npx", Args: []string{"-y", "files", "/data/x", "none"},
			Env: map[string]string{"KEY": "t0ken-value"}, Headers: map[string]string{}},
		{Name: "web", URL: "https://example.org/mcp", Env: map[string]string{},
			Headers: map[string]string{"Authorization": "Bearer t0ken-value"}},
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(mcp.ServerConfig{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestConfigMistakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ config, want string }{
		"no JSON":    {`{"mcpServers":{"a":{"env":{"KEY":"secret`, "it is not JSON"},
		"wrong type": {`{"mcpServers":{"a":{"command":["secret"]}}}`, "mcpServers.command is no string"},
		"no servers": {`{}`, `no server in "mcpServers"`},
		"neither":    {`{"mcpServers":{"a":{}}}`, `server "a": either a command or a URL is needed`},
		"both": {`{"mcpServers":{"a":{"command":"x","url":"http://x"}}}`,
			`server "a": either a command or a URL is needed`},
		"variable": {`{"mcpServers":{"a":{"command":"x","env":{"A":"${NO_B}","C":"${NO_A}"}}}}`,
			`server "a": the environment has no NO_A, NO_B`},
		"old transport": {`{"mcpServers":{"a":{"type":"sse","url":"http://x"}}}`, "the transport sse is not supported"},
		"no URL":        {`{"mcpServers":{"a":{"url":"ftp://secret"}}}`, `server "a": url: it is not an http or https URL`},
		"credentials": {`{"mcpServers":{"a":{"url":"https://me:secret@x"}}}`,
			`server "a": url: give the credentials in a header`},
		"all at once, 1":  {`{"mcpServers":{"a":{},"b":{"url":"x"}}}`, `server "a": `},
		"all at once, 2":  {`{"mcpServers":{"a":{},"b":{"url":"x"}}}`, `server "b": `},
		"name of nothing": {`{"mcpServers":{" ":{"command":"x"}}}`, "it has no name"},
	} {
		_, err := mcp.ParseConfig([]byte(c.config), env)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseServer(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]mcp.ServerConfig{
		`fs=npx -y "my files" 'a "b"' c\ d ${DIR}`: {Name: "fs", Command: "npx",
			Args: []string{"-y", "my files", `a "b"`, "c d", "/data"}},
		`w=https://example.org/mcp?a=b`: {Name: "w", URL: "https://example.org/mcp?a=b"},
		` x = run a=b `:                 {Name: "x", Command: "run", Args: []string{"a=b"}},
	} {
		got, err := mcp.ParseServer(text, env)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		want.Env, want.Headers = map[string]string{}, map[string]string{}
		if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(mcp.ServerConfig{}), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s (-want +got):\n%s", text, d)
		}
	}
	for _, text := range []string{"", "x", "x=", "x= ", "=run", "x='run", `x=run \`, `x=""`} {
		if c, err := mcp.ParseServer(text, env); err == nil {
			t.Errorf("%q: %+v", text, c)
		}
	}
}

// What was meant to be a URL may have a secret.
func TestMistakesInURLsShowNoSecret(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"https://x/secret", "https://x/?key=secret", "w=ws://x/?key=secret",
		"w=https://x:y/?key=secret", "w=${SECRET}"} {
		c, err := mcp.ParseServer(text, func(string) string { return "secret" })
		if err == nil {
			_, err = mcp.NewBridge(mcp.BridgeOptions{Server: c})
		}
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestNewBridgeChecksTheCommand(t *testing.T) {
	t.Parallel()
	if _, err := mcp.NewBridge(mcp.BridgeOptions{Server: mcp.ServerConfig{Name: "a",
		Command: "/no/such/program"}}); err == nil || !strings.Contains(err.Error(), `MCP server "a"`) {
		t.Errorf("%v", err)
	}
}

func TestPrefixes(t *testing.T) {
	t.Parallel()
	names := []string{"git", "git_hub", "git-hub", "git.hub", "7zip", "", "日本", strings.Repeat("x", 40),
		strings.Repeat("x", 41)}
	want := []string{"git", "git-hub", "git-hub-2", "git-hub-3", "mcp-7zip", "mcp-", "mcp---", strings.Repeat("x", 24),
		strings.Repeat("x", 22) + "-2"}
	if d := cmp.Diff(want, mcp.Prefixes(names)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
