package registry_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/registry"
	"github.com/loopbus/loopbus/schemas"
)

func announce(t testing.TB, c *bus.Conn, tool, worker, since, description string) {
	t.Helper()
	data, err := json.Marshal(schemas.ToolAnnouncement{
		ToolDefinition: schemas.ToolDefinition{Name: tool, Description: description}, Worker: worker, Since: since})
	if err != nil {
		t.Fatal(err)
	}
	put(t, c, schemas.AnnouncementKey(tool, worker), data)
}

func tools(t testing.TB, c *bus.Conn) jetstream.KeyValue {
	t.Helper()
	kv, err := c.JetStream().KeyValue(bustest.Deadline(t), schemas.BucketTools)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

func put(t testing.TB, c *bus.Conn, key string, data []byte) {
	t.Helper()
	if _, err := tools(t, c).Put(bustest.Deadline(t), key, data); err != nil {
		t.Fatal(err)
	}
}

func newToolbox(t testing.TB, c *bus.Conn) *registry.Toolbox {
	box := registry.NewToolbox(c, nil)
	t.Cleanup(box.Close)
	return box
}

// described returns the definitions as name:description.
func described(t testing.TB, box *registry.Toolbox) []string {
	t.Helper()
	defs, err := box.Definitions(bustest.Deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, d := range defs {
		got = append(got, d.Name+":"+d.Description)
	}
	return got
}

func TestToolboxReturnsOneDefinitionPerTool(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	announce(t, c, "read", "w1", "2026-01-01T00:00:00Z", "old")
	announce(t, c, "read", "w2", "2026-01-02T00:00:00+01:00", "new")
	announce(t, c, "read", "w3", "garbage", "undated")
	announce(t, c, "bash", "w9", "2026-01-01T00:00:00Z", "same second, later name")
	announce(t, c, "bash", "w8", "2026-01-01T01:00:00+01:00", "same second, earlier name")
	put(t, c, "ls.w1", []byte("not json"))
	put(t, c, "ls.w2", []byte(`{"name":"other"}`))
	box := newToolbox(t, c)
	want := []string{"bash:same second, earlier name", "read:new"}
	if d := cmp.Diff(want, described(t, box)); d != "" {
		t.Errorf("tools (-want +got):\n%s", d)
	}
}

// A tool has one definition per workspace: that of the highest version announced there.
func TestToolboxReturnsHighestVersionPerWorkspace(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	announce(t, c, "read", "w9", "2027-01-01T00:00:00Z", "newer, but without a version")
	for worker, def := range map[string]schemas.ToolDefinition{
		"w1": {Name: "read", Version: "9", Description: "nine"},
		"w2": {Name: "read", Version: "10", Description: "ten"},
		"w3": {Name: "read", Version: "1", Workspace: "host", Description: "one, host"},
		"w4": {Name: "read", Workspace: "host", Description: "host"},
	} {
		bustest.Announce(t, c, worker, def)
	}
	put(t, c, "read=3.w6", []byte(`{"name":"read","version":"4","worker":"w6"}`))
	box := newToolbox(t, c)
	want := []string{"read:ten", "read:one, host"}
	if d := cmp.Diff(want, described(t, box)); d != "" {
		t.Errorf("tools (-want +got):\n%s", d)
	}
	all, err := box.Announcements(bustest.Deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range all {
		got = append(got, a.Queue().Name()+" "+a.Worker)
	}
	if d := cmp.Diff([]string{"read w9", "read==host w4", "read=1=host w3", "read=9 w1", "read=10 w2"}, got); d != "" {
		t.Errorf("announcements (-want +got):\n%s", d)
	}
}

// A client that may announce a tool must not slow runners down with a schema of parameters that is costly to check.
func TestToolboxRejectsUncheckableParameters(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	deep := strings.Repeat(`{"not":`, 300) + "{}" + strings.Repeat("}", 300)
	bustest.Announce(t, c, "w1", schemas.ToolDefinition{Name: "deep", Parameters: json.RawMessage(deep)})
	bustest.Announce(t, c, "w1", schemas.ToolDefinition{Name: "read", Description: "good"})
	box := newToolbox(t, c)
	if d := cmp.Diff([]string{"read:good"}, described(t, box)); d != "" {
		t.Errorf("tools (-want +got):\n%s", d)
	}
	bustest.Announce(t, c, "w1",
		schemas.ToolDefinition{Name: "read", Parameters: json.RawMessage(`{"anyOf":[{"$ref":"#"}]}`)})
	bustest.Eventually(t, "the changed announcement is rejected", func() bool { return len(described(t, box)) == 0 })
}

func TestToolboxFollowsTheAnnouncements(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	box := newToolbox(t, c)
	if d := cmp.Diff([]string{}, described(t, box)); d != "" {
		t.Errorf("tools without announcements (-want +got):\n%s", d)
	}
	announce(t, c, "read", "w1", "2026-01-01T00:00:00Z", "first")
	if err := box.Wait(bustest.Deadline(t), "read"); err != nil {
		t.Fatal(err)
	}
	announce(t, c, "read", "w2", "2026-01-02T00:00:00Z", "second")
	bustest.Eventually(t, "the newer one counts", func() bool { return described(t, box)[0] == "read:second" })
	if err := tools(t, c).Delete(bustest.Deadline(t), "read.w2"); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the older one counts again", func() bool { return described(t, box)[0] == "read:first" })
	if err := tools(t, c).Delete(bustest.Deadline(t), "read.w1"); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "no tool is left", func() bool { return len(described(t, box)) == 0 })
}

func TestToolboxForgetsWorkersThatStopRenewing(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	box := newToolbox(t, c)
	renew := func(ttl time.Duration) {
		t.Helper()
		if _, err := c.JetStream().Publish(bustest.Deadline(t), "$KV."+schemas.BucketTools+".read.w1",
			[]byte(`{"name":"read","worker":"w1","since":"2026-01-01T00:00:00Z"}`), jetstream.WithMsgTTL(ttl)); err != nil {
			t.Fatal(err)
		}
	}
	renew(time.Hour)
	if err := box.Wait(bustest.Deadline(t), "read"); err != nil {
		t.Fatal(err)
	}
	renew(time.Second) // it may expire before the toolbox receives it
	bustest.Eventually(t, "the tool is removed", func() bool { return len(described(t, box)) == 0 })
}

func TestToolboxWaitNamesMissingTools(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	announce(t, c, "read", "w1", "", "")
	box := newToolbox(t, c)
	if err := box.Wait(bustest.Deadline(t), "read"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(bustest.Deadline(t), 10*time.Millisecond)
	defer cancel()
	err := box.Wait(ctx, "bash", "read", "ls")
	if err == nil || !strings.Contains(err.Error(), "bash, ls") {
		t.Errorf("got %v", err)
	}
}

// Announcements become part of the logs of sessions. So they must conform to their schema, and name the worker that
// their key belongs to.
func TestInvalidAnnouncementIsIgnored(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	for worker, def := range map[string]schemas.ToolDefinition{
		"effect": {Effect: "harmless"}, "time": {TimeoutMs: -1}, "label": {Label: strings.Repeat("x", 1000)},
		"scope": {Scopes: []string{""}}, "mode": {ExecutionMode: "at once"},
	} {
		def.Name = "forged"
		bustest.Announce(t, c, worker, def)
	}
	put(t, c, "forged.w1", []byte(`{"name":"forged","worker":"w2","since":"2026-01-01T00:00:00Z"}`))
	put(t, c, "forged.w2", []byte(`{"name":"forged","worker":"\u001b]0;x","since":"2026-01-01T00:00:00Z"}`))
	put(t, c, "read.w1", []byte(`{"name":"read","worker":"w1","since":"\u001b]0;x"}`))
	box := newToolbox(t, c)
	all, err := box.Announcements(bustest.Deadline(t))
	if err != nil || len(all) != 1 || all[0].Worker != "w1" || all[0].Since != "" {
		t.Errorf("%+v, %v", all, err)
	}
}

// After CatchUp the toolbox contains every tool that was announced before the call.
func TestToolboxCatchesUp(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	box := newToolbox(t, c)
	if err := box.CatchUp(bustest.Deadline(t)); err != nil {
		t.Fatalf("a bucket without entries: %v", err)
	}
	for i := range 50 {
		want := strconv.Itoa(i)
		announce(t, c, "read", "w1", "2026-01-01T00:00:00Z", want)
		if i%2 > 0 { // the newest is an answer of a server
			put(t, c, "other.w1", []byte(`{"type":"io.nats.jetstream.api.v1.stream_info_response"}`))
		}
		if err := box.CatchUp(bustest.Deadline(t)); err != nil {
			t.Fatal(err)
		}
		if got := described(t, box); len(got) != 1 || got[0] != "read:"+want {
			t.Fatalf("announcement %d is not known: %v", i, got)
		}
	}
}
