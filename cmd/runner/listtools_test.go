package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/cmd/runner/internal/listing"
	"github.com/loopbus/loopbus/schemas"
)

// announceTool puts an announcement into the bucket as a worker does.
func (w *world) announceTool(worker, since string, def schemas.ToolDefinition) {
	w.t.Helper()
	data, err := schemas.Marshal(schemas.ToolAnnouncement{ToolDefinition: def, Worker: worker, Since: since})
	if err != nil {
		w.t.Fatal(err)
	}
	subject := "$KV." + schemas.BucketTools + "." + schemas.AnnouncementKey(def.Queue().Name(), worker)
	if _, err := w.conn.JetStream().Publish(w.t.Context(), subject, data, jetstream.WithMsgTTL(time.Minute)); err != nil {
		w.t.Fatal(err)
	}
}

// leaveCalls makes the consumer of a queue without a worker and puts calls into it.
func (w *world) leaveCalls(queue schemas.ToolQueue, n int) {
	w.t.Helper()
	name := queue.Name()
	_, err := w.conn.JetStream().CreateOrUpdateConsumer(w.t.Context(), schemas.StreamTools, jetstream.ConsumerConfig{
		Durable: name, FilterSubject: w.conn.Subjects().Tool(name, "*", "*"), AckPolicy: jetstream.AckExplicitPolicy,
	})
	for i := range n {
		if err == nil {
			_, err = w.conn.JetStream().Publish(w.t.Context(),
				w.conn.Subjects().Tool(name, "s1", string(schemas.NewCallKey(uint64(i+1)))), nil)
		}
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) listTools(args ...string) string {
	w.t.Helper()
	var out bytes.Buffer
	if err := run(w.t.Context(), append([]string{"tools", "--nats", w.url}, args...), func(string) string { return "" },
		&out, &out); err != nil {
		w.t.Fatal(err)
	}
	return out.String()
}

// TestToolsAreListed has three workers announce a tool in two versions, and calls wait in a workspace that has none.
// The world's own worker serves bash.
func TestToolsAreListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	yes := true
	search := schemas.ToolDefinition{Name: "search", Version: "9",
		Annotations: &schemas.ToolAnnotations{ReadOnlyHint: &yes}}
	w.announceTool("w3", "2026-01-02T00:00:00Z", search)
	w.announceTool("w2", "2026-01-01T00:00:00Z", search)
	search.Version, search.Effect = "10", schemas.EffectIdempotent
	w.announceTool("w2", "2026-01-01T00:00:00Z", search)
	w.leaveCalls(schemas.ToolQueue{Tool: "search", Version: "10"}, 2)
	w.leaveCalls(schemas.ToolQueue{Tool: "search", Workspace: "host"}, 1)
	w.leaveCalls(schemas.ToolQueue{Tool: "gone"}, 0)
	var got []listing.ServedTool
	for line := range strings.Lines(w.listTools("--json")) {
		var tool listing.ServedTool
		if err := json.Unmarshal([]byte(line), &tool); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if tool.Name != "bash" {
			got = append(got, tool)
		}
	}
	want := []listing.ServedTool{
		{Name: "search", Workspace: "host", Waiting: 1, Workers: []listing.ServedBy{}},
		{Name: "search", Version: "9", Effect: schemas.EffectReadOnly,
			Workers: []listing.ServedBy{{ID: "w2", Since: "2026-01-01T00:00:00Z"}, {ID: "w3", Since: "2026-01-02T00:00:00Z"}}},
		{Name: "search", Version: "10", Effect: schemas.EffectIdempotent, Waiting: 2,
			Workers: []listing.ServedBy{{ID: "w2", Since: "2026-01-01T00:00:00Z"}}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("tools (-want +got):\n%s", d)
	}
	table := w.listTools()
	for _, want := range []string{
		"search  -        host       -           1        0        nobody  -\n",
		"search  9        -          read_only   0        0        w2      2026-01-01T00:00:00Z\n",
		"                                                          w3      2026-01-02T00:00:00Z\n",
		"bash    -        -          unsafe      0        0        w1      20",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is missing in:\n%s", want, table)
		}
	}
}

func TestListToolsSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := run(t.Context(), []string{"tools", "--nats", "nats://127.0.0.1:1", "--prefix", "a b"},
		func(string) string { return "" }, &out, &out)
	if err == nil || !strings.Contains(err.Error(), "--prefix") {
		t.Errorf("got %v", err)
	}
}

// What workers, profiles and files of a workspace say cannot drive the terminal of who lists it, nor look like a row.
func TestListingsAreVisible(t *testing.T) {
	t.Parallel()
	const evil = "x\x1b]0;owned\a\u009b2J\u202e\nbash  -  -  read_only"
	w := newWorld(t)
	profile, err := json.Marshal(schemas.Profile{Description: evil, Tools: []string{evil},
		Model: &schemas.ModelRef{ID: evil}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.conn.JetStream().Publish(t.Context(), "$KV."+schemas.BucketProfiles+".p", profile); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"profiles", "--nats", w.url}, func(string) string { return "" }, &out,
		&out); err != nil {
		t.Fatal(err)
	}
	shown := listing.SessionTools{Session: "s1", RunID: evil, Profile: evil,
		Layers: []schemas.ToolLayer{{Name: evil, Added: []string{evil}, Changed: []string{evil},
			Removed: []schemas.ToolRemoval{{Name: evil, Reason: evil}}}},
		Tools:   []schemas.ToolDefinition{{Name: evil, Version: evil, Workspace: evil, Effect: evil}},
		Sources: []schemas.PromptSource{{Kind: evil, Name: evil, Path: evil, SHA256: evil}}}
	if err := shown.Print(&out); err != nil {
		t.Fatal(err)
	}
	if err := listing.PrintTools([]listing.ServedTool{{Name: evil, Version: evil, Workspace: evil, Effect: evil,
		Workers: []listing.ServedBy{{ID: evil, Since: evil}}}}, &out); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.ContainsAny(text, "\x1b\a\u009b\u202e") || strings.Contains(text, "\nbash") ||
		!strings.Contains(text, `\x1b]0;owned`) {
		t.Errorf("shown:\n%q", text)
	}
}
