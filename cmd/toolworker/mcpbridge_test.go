package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// bridge runs the command with the zoo as its MCP server.
func (r *rig) bridge(log *bustest.Log, args ...string) (dir string) {
	r.t.Helper()
	dir = r.t.TempDir()
	r.start(log, append([]string{"--id", "w9", "--tools", "ls", "--mcp-server",
		"zoo=" + self(r.t) + " " + asMCPServer + " " + dir}, args...)...)
	bustest.Eventually(r.t, "the zoo's tools are announced", func() bool {
		return r.announcement("zoo_echo", "w9-zoo-1") != nil
	})
	return dir
}

func TestToolsOfMCPServersAreServed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var log bustest.Log
	r.bridge(&log)
	bustest.Eventually(t, "the built-in tool is announced", func() bool { return r.announcement("ls", "w9") != nil })
	r.call("zoo_echo", `{"v":1}`)
	got, _ := r.answer()
	if image, ok := got.Result.Content[1].(schemas.Image); got.IsError || got.Result.Content.JoinText() != `{"v":1}` ||
		!ok || image.Data != dot {
		t.Errorf("%+v", got)
	}
	r.settled()
	if strings.Contains(log.String(), `{\"v\":1}`) {
		t.Errorf("arguments are in the log:\n%s", log.String())
	}
}

// An image of a server that no message has room for is made smaller.
func TestImagesOfMCPServersFitInAMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bridge(new(bustest.Log))
	r.call("zoo_poster", `{}`)
	got, _ := r.answer()
	last := got.Result.Content[len(got.Result.Content)-1]
	if image, ok := last.(schemas.Image); got.IsError || !ok || len(image.Data) < 100<<10 {
		t.Errorf("error %v, %.200v", got.IsError, last)
	}
}

// The list changes: a new worker announces the new list, and the old one goes.
func TestToolsOfMCPServersChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bridge(new(bustest.Log))
	r.call("zoo_grow", `{}`)
	if got, _ := r.answer(); got.IsError {
		t.Errorf("%+v", got)
	}
	bustest.Eventually(t, "the new list is announced", func() bool {
		return r.announcement("zoo_grown", "w9-zoo-2") != nil
	})
	bustest.Eventually(t, "the old one is withdrawn", func() bool { return r.announcement("zoo_echo", "w9-zoo-1") == nil })
	r.call("zoo_grown", `{}`)
	if got, _ := r.answer(); got.IsError || got.Worker != "w9-zoo-2" {
		t.Errorf("%+v", got)
	}
}

// A list that changes ends no call that is at work, however long it takes.
func TestCallsOutliveTheListOfTools(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := r.bridge(new(bustest.Log), "--stop-timeout", "1ms")
	r.call("zoo_hold", `{}`)
	bustest.Eventually(t, "the call is at work", func() bool {
		_, err := os.Stat(filepath.Join(dir, "holding"))
		return err == nil
	})
	r.call("zoo_grow", `{}`)
	r.answer()
	bustest.Eventually(t, "the old list is withdrawn", func() bool {
		return r.announcement("zoo_hold", "w9-zoo-1") == nil
	})
	r.call("zoo_grown", `{}`)
	if got, _ := r.answer(); got.IsError || got.Worker != "w9-zoo-2" {
		t.Errorf("%+v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "release"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ := r.answer(); got.IsError || got.Worker != "w9-zoo-1" ||
		!strings.Contains(got.Result.Content.JoinText(), "held") {
		t.Errorf("%+v", got)
	}
	r.settled()
}

// A call of a definition that an MCP server has changed since is not made; one of the definition that is announced is.
func TestCallsOfAnEarlierDefinitionAreNotMade(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bridge(new(bustest.Log))
	var announced schemas.ToolAnnouncement
	if err := json.Unmarshal(r.announcement("zoo_echo", "w9-zoo-1").Value(), &announced); err != nil {
		t.Fatal(err)
	}
	for revision, refused := range map[string]bool{announced.Revision: false, "": false, "of-before": true} {
		req := r.request("zoo_echo", `{"v":1}`)
		req.Revision = revision
		r.dispatch(req)
		got, _ := r.answer()
		if got.IsError != refused || refused && !strings.Contains(got.Result.Content.JoinText(), "The call was not made") {
			t.Errorf("revision %q: %+v", revision, got)
		}
	}
	if announced.Revision == "" {
		t.Error("the tool has no revision")
	}
}

func TestMCPServerDies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bridge(new(bustest.Log))
	r.call("zoo_die", `{}`)
	if got, _ := r.answer(); !got.IsError || !strings.Contains(got.Result.Content.JoinText(),
		"The outcome of this call is unknown") {
		t.Errorf("%+v", got)
	}
	bustest.Eventually(t, "it is back", func() bool {
		r.call("zoo_echo", `{}`)
		got, _ := r.answer()
		return !got.IsError
	})
	if r.announcement("zoo_echo", "w9-zoo-1") == nil {
		t.Error("the tools are not announced as before")
	}
}

// All the way round: an MCP client, our MCP server, the bus, a worker with a bridge, an MCP server.
func TestMCPAllTheWayRound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := r.bridge(new(bustest.Log))
	url, _ := r.serveMCP()
	c := connectMCP(t, &sdk.StreamableClientTransport{Endpoint: url})
	c.wantText("zoo_echo", `{"v":[1,2]}`, `{"v":[1,2]}`, false)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { _, err := c.call(ctx, "zoo_wait", `{}`); ended <- err }()
	if p := bustest.Within(t, c.progress); p.ProgressToken != "p-zoo_wait" || p.Progress != 2 || p.Total != 4 ||
		p.Message != "half" {
		t.Errorf("progress %+v", p)
	}
	cancel()
	if err := bustest.Within(t, ended); err == nil {
		t.Error("a cancelled call has a result")
	}
	r.exists(filepath.Join(dir, "cancelled"))
	r.settled()
}

func TestMCPServersFromAFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp.json")
	config := `{"mcpServers":{"my zoo":{"command":"` + self(t) + `","args":["` + asMCPServer + `","` + dir + `"]}}}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	r.start(new(bustest.Log), "--id", strings.Repeat("w", 64), "--tools", "", "--mcp-config", file)
	id := workerID(strings.Repeat("w", 64), "my-zoo", 1)
	if err := schemas.CheckToken("worker id", id); err != nil {
		t.Error(err)
	}
	bustest.Eventually(t, "its tools are announced", func() bool { return r.announcement("my-zoo_echo", id) != nil })
}
