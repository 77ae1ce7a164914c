package streams_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/streams"
)

var everyStream = []string{
	"AGENT_CMD", "AGENT_EVT", "AGENT_UPD", "AGENT_TOOL", "AGENT_DEAD",
	"KV_agent_tools", "KV_agent_runners", "KV_agent_snapshots", "KV_agent_profiles", "OBJ_agent_blobs",
}

func configOf(t *testing.T, c *bus.Conn, stream string) jetstream.StreamConfig {
	t.Helper()
	s, err := c.JetStream().Stream(bustest.Deadline(t), stream)
	if err != nil {
		t.Fatalf("%s: %v", stream, err)
	}
	return s.CachedInfo().Config
}

func TestSetupChangesNothingTheSecondTime(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	for _, stream := range everyStream { // what an operator may have added
		cfg := configOf(t, c, stream)
		cfg.Description = "ours"
		if cfg.Metadata == nil {
			cfg.Metadata = map[string]string{}
		}
		cfg.Metadata["team"] = "blue"
		if cfg.MaxAge > 0 {
			cfg.MaxAge += time.Minute
		}
		if _, err := c.JetStream().UpdateStream(bustest.Deadline(t), cfg); err != nil {
			t.Fatal(err)
		}
	}
	before := make(map[string]jetstream.StreamConfig)
	for _, stream := range everyStream {
		before[stream] = configOf(t, c, stream)
	}
	if err := streams.Setup(bustest.Deadline(t), c, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, stream := range everyStream {
		if d := cmp.Diff(before[stream], configOf(t, c, stream)); d != "" {
			t.Errorf("%s (-before +after):\n%s", stream, d)
		}
	}
}

// Every stream refuses answers of a server that are longer than what a client can publish, also one of before.
func TestSetupLimitsMessages(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	for _, stream := range everyStream {
		cfg := configOf(t, c, stream)
		if cfg.MaxMsgSize < 64<<10 || cfg.MaxMsgSize > 8<<20 {
			t.Errorf("%s stores messages of %d bytes", stream, cfg.MaxMsgSize)
		}
		if cfg.MaxMsgSize = -1; stream == "AGENT_TOOL" {
			cfg.MaxMsgSize = 16 << 20 // an operator's
		}
		if _, err := c.JetStream().UpdateStream(bustest.Deadline(t), cfg); err != nil {
			t.Fatal(err)
		}
	}
	if err := streams.Setup(bustest.Deadline(t), c, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, stream := range everyStream {
		size := configOf(t, c, stream).MaxMsgSize
		if want := int32(16 << 20); size < 64<<10 || size > 8<<20 && (stream != "AGENT_TOOL" || size != want) {
			t.Errorf("%s stores messages of %d bytes", stream, size)
		}
	}
}

func TestSetupByManyProcessesAtOnce(t *testing.T) {
	t.Parallel()
	s := bustest.Server(t)
	var g errgroup.Group
	begin := make(chan struct{})
	for i := range 8 {
		c := bustest.Connect(t, s)
		o := streams.Options{Partitions: 16}
		if i%2 == 0 { // the others take what there is
			o.DuplicateWindow = time.Hour
		}
		g.Go(func() error {
			<-begin
			return streams.Setup(bustest.Deadline(t), c, o)
		})
	}
	close(begin)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	c := bustest.Connect(t, s)
	for _, stream := range everyStream {
		configOf(t, c, stream)
	}
	if n, err := streams.Partitions(bustest.Deadline(t), c); err != nil || n != 16 {
		t.Errorf("%d partitions, %v", n, err)
	}
	if window := configOf(t, c, "AGENT_CMD").Duplicates; window != time.Hour {
		t.Errorf("duplicate window of %s", window)
	}
}

func TestSetupUpgradesLimits(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	o := streams.Options{Partitions: streams.DefaultPartitions, DuplicateWindow: time.Minute, EventMaxBytes: 8 << 20,
		CommandMaxBytes: 6 << 20, ToolMaxBytes: 7 << 20, BlobMaxBytes: 3 << 20}
	if err := streams.Setup(bustest.Deadline(t), c, o); err != nil {
		t.Fatal(err)
	}
	cmd := configOf(t, c, "AGENT_CMD")
	got := []any{cmd.Duplicates, configOf(t, c, "AGENT_EVT").MaxBytes, cmd.MaxBytes, configOf(t, c, "AGENT_TOOL").MaxBytes,
		configOf(t, c, "OBJ_agent_blobs").MaxBytes}
	want := []any{o.DuplicateWindow, o.EventMaxBytes, o.CommandMaxBytes, o.ToolMaxBytes, o.BlobMaxBytes}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("limits (-want +got):\n%s", d)
	}
}

// A stream of an earlier version, without what has been added since, is brought up to date.
// A stream that refuses what it has no room for must not drop what it has: neither by age, nor by number.
func TestSetupRemovesLimitsThatDropMessages(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	for _, name := range []string{"AGENT_EVT", "AGENT_CMD", "AGENT_TOOL", "OBJ_agent_blobs", "KV_agent_sessions"} {
		if err := streams.Setup(bustest.Deadline(t), c, streams.Options{}); err != nil {
			t.Fatal(err)
		}
		want := configOf(t, c, name)
		edited := want
		edited.MaxAge, edited.Duplicates = time.Hour, time.Minute
		if !want.DiscardNewPerSubject && want.MaxMsgsPerSubject <= 0 {
			edited.MaxMsgsPerSubject = 100
		}
		edited.MaxMsgs = 1 << 20 // which refuses, so it is the operator's
		if _, err := c.JetStream().UpdateStream(bustest.Deadline(t), edited); err != nil {
			t.Fatal(name, err)
		}
		if err := streams.Setup(bustest.Deadline(t), c, streams.Options{}); err != nil {
			t.Fatal(err)
		}
		got := configOf(t, c, name)
		if got.MaxAge != 0 || got.MaxMsgsPerSubject != want.MaxMsgsPerSubject || got.MaxMsgs != 1<<20 {
			t.Errorf("%s: age %v, %d messages per subject, want %d; %d messages", name, got.MaxAge, got.MaxMsgsPerSubject,
				want.MaxMsgsPerSubject, got.MaxMsgs)
		}
	}
}

func TestSetupUpgradesFeatures(t *testing.T) {
	t.Parallel()
	c := bustest.Connect(t, bustest.Server(t))
	for _, cfg := range []jetstream.StreamConfig{
		{Name: "AGENT_EVT", Subjects: []string{"agent.evt.*"}},
		{
			Name: "AGENT_CMD", Subjects: []string{"agent.cmd.*.*"}, Retention: jetstream.WorkQueuePolicy,
			SubjectTransform: &jetstream.SubjectTransformConfig{
				Source: "agent.cmd.*.*", Destination: "agent.cmd.{{partition(8,1)}}.{{wildcard(1)}}.{{wildcard(2)}}",
			},
		},
	} {
		if _, err := c.JetStream().CreateStream(bustest.Deadline(t), cfg); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.JetStream().CreateKeyValue(bustest.Deadline(t),
		jetstream.KeyValueConfig{Bucket: "agent_tools", LimitMarkerTTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.JetStream().CreateObjectStore(bustest.Deadline(t),
		jetstream.ObjectStoreConfig{Bucket: "agent_inputs"}); err != nil {
		t.Fatal(err)
	}
	if err := streams.Setup(bustest.Deadline(t), c, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	if inputs := configOf(t, c, "OBJ_agent_inputs"); inputs.AllowRollup || inputs.MaxAge == 0 || inputs.MaxBytes <= 0 {
		t.Errorf("inputs: %+v", inputs)
	}
	evt, cmd, tools := configOf(t, c, "AGENT_EVT"), configOf(t, c, "AGENT_CMD"), configOf(t, c, "KV_agent_tools")
	if evt.RePublish == nil || !evt.DenyDelete || !evt.AllowDirect || evt.Discard != jetstream.DiscardNew {
		t.Errorf("log: %+v", evt)
	}
	if len(cmd.Sources) != 1 || !strings.Contains(cmd.Sources[0].SubjectTransforms[0].Destination, "partition(8,1)") ||
		!cmd.AllowDirect {
		t.Errorf("inbox: %+v", cmd)
	}
	if timers := configOf(t, c, "AGENT_TIMER"); !timers.AllowMsgSchedules || !timers.AllowMsgTTL {
		t.Errorf("timers: %+v", timers)
	}
	if !tools.AllowMsgTTL || tools.SubjectDeleteMarkerTTL != 0 || tools.AllowRollup {
		t.Errorf("tools: %+v", tools)
	}
	if n, err := streams.Partitions(bustest.Deadline(t), c); err != nil || n != 8 {
		t.Errorf("%d partitions, %v", n, err)
	}
}

func TestSetupRefusesWhatItCannotChange(t *testing.T) {
	t.Parallel()
	source := &jetstream.StreamSource{Name: "ORIGIN"}
	tests := []struct {
		name    string
		have    jetstream.StreamConfig
		opts    streams.Options
		setting string
	}{
		{"another storage", jetstream.StreamConfig{Name: "AGENT_EVT", Subjects: []string{"agent.evt.*"},
			Storage: jetstream.MemoryStorage}, streams.Options{}, "storage"},
		{"another retention", jetstream.StreamConfig{Name: "AGENT_TOOL", Subjects: []string{"agent.tool.*.*.*"}},
			streams.Options{}, "retention"},
		{"other subjects", jetstream.StreamConfig{Name: "AGENT_DEAD", Subjects: []string{"acme.dead.*.*"}},
			streams.Options{}, "subjects"},
		{"a mirror", jetstream.StreamConfig{Name: "AGENT_EVT", Mirror: source}, streams.Options{}, "mirror"},
		{"sources", jetstream.StreamConfig{Name: "AGENT_EVT", Subjects: []string{"agent.evt.*"},
			Sources: []*jetstream.StreamSource{source}}, streams.Options{}, "sources"},
		{"a bucket in memory", jetstream.StreamConfig{Name: "KV_agent_runners", Subjects: []string{"$KV.agent_runners.>"},
			Storage: jetstream.MemoryStorage}, streams.Options{}, "storage"},
		{
			"republishing elsewhere",
			jetstream.StreamConfig{Name: "AGENT_EVT", Subjects: []string{"agent.evt.*"},
				RePublish: &jetstream.RePublish{Source: "agent.evt.*", Destination: "tap.{{wildcard(1)}}"}},
			streams.Options{}, "republish",
		},
		{
			"another number of partitions",
			jetstream.StreamConfig{
				Name: "AGENT_CMD", Subjects: []string{"agent.cmd.*.*"}, Retention: jetstream.WorkQueuePolicy,
				SubjectTransform: &jetstream.SubjectTransformConfig{Source: "agent.cmd.*.*",
					Destination: "agent.cmd.{{partition(8,1)}}.{{wildcard(1)}}.{{wildcard(2)}}"},
			},
			streams.Options{Partitions: 16}, "partitions",
		},
		{
			"no partitions",
			jetstream.StreamConfig{Name: "AGENT_CMD", Subjects: []string{"agent.cmd.*.*"}, Retention: jetstream.WorkQueuePolicy},
			streams.Options{}, "partitions",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := bustest.Connect(t, bustest.Server(t))
			if _, err := c.JetStream().CreateStream(bustest.Deadline(t), jetstream.StreamConfig{Name: "ORIGIN"}); err != nil {
				t.Fatal(err)
			}
			if _, err := c.JetStream().CreateStream(bustest.Deadline(t), tt.have); err != nil {
				t.Fatal(err)
			}
			before := configOf(t, c, tt.have.Name)
			err := streams.Setup(bustest.Deadline(t), c, tt.opts)
			var got *streams.IncompatibleError
			if !errors.As(err, &got) {
				t.Fatalf("error %v", err)
			}
			if got.Stream != tt.have.Name || got.Setting != tt.setting || got.Hint == "" || got.Have == got.Want ||
				!strings.Contains(err.Error(), got.Have) {
				t.Errorf("got %+v", got)
			}
			if d := cmp.Diff(before, configOf(t, c, tt.have.Name)); d != "" {
				t.Errorf("it was changed (-before +after):\n%s", d)
			}
			names := c.JetStream().StreamNames(bustest.Deadline(t))
			n := 0
			for range names.Name() {
				n++
			}
			if n != 2 {
				t.Errorf("%d streams: something was created before the refusal", n)
			}
		})
	}
}

func TestSetupRefusesBadOptions(t *testing.T) {
	t.Parallel()
	c := bustest.Connect(t, bustest.Server(t))
	for _, o := range []streams.Options{
		{Partitions: -1}, {Partitions: 1025}, {Replicas: 6}, {DuplicateWindow: time.Millisecond},
		{DuplicateWindow: -time.Hour},
		{Replicas: 3}, // which one server cannot have
	} {
		if err := streams.Setup(bustest.Deadline(t), c, o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

func TestSetupWithoutJetStream(t *testing.T) {
	t.Parallel()
	s := bustest.NATS(t, &server.Options{})
	c, err := bus.Connect(bustest.Deadline(t), bus.ConnOptions{URL: s.ClientURL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := streams.Setup(ctx, c, streams.Options{}); err == nil || !strings.Contains(err.Error(), "JetStream") {
		t.Errorf("error %v", err)
	}
}

func TestReplicasNeedACluster(t *testing.T) {
	t.Parallel()
	c := bustest.Connect(t, bustest.Server(t))
	err := streams.Setup(bustest.Deadline(t), c, streams.Options{Replicas: 3})
	if err == nil || !strings.Contains(err.Error(), "3 replicas need a cluster of at least 3 servers") {
		t.Errorf("error %v", err)
	}
	for name := range c.JetStream().StreamNames(bustest.Deadline(t)).Name() {
		t.Errorf("stream %s was made", name)
	}
}

func TestTwoPrefixesDoNotShareStreams(t *testing.T) {
	t.Parallel()
	s := bustest.Server(t)
	for i, prefix := range []string{"acme.agents", "agent"} {
		c, err := bus.Connect(bustest.Deadline(t), bus.ConnOptions{InProcess: s, Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		err = streams.Setup(bustest.Deadline(t), c, streams.Options{})
		var incompatible *streams.IncompatibleError
		if wantErr := i == 1; errors.As(err, &incompatible) != wantErr || (err != nil) != wantErr {
			t.Errorf("prefix %s: %v", prefix, err)
		}
	}
}

// Whoever may send a command could otherwise empty the inbox of all sessions with a roll-up.
func TestSenderCannotRollUpInbox(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	if _, err := c.JetStream().Publish(bustest.Deadline(t), "agent.cmd.s1.prompt", []byte("stay")); err != nil {
		t.Fatal(err)
	}
	m := nats.NewMsg("agent.cmd.s2.prompt")
	m.Header.Set("Nats-Rollup", "all")
	if _, err := c.JetStream().PublishMsg(bustest.Deadline(t), m); err == nil {
		t.Error("the roll-up was taken")
	}
	if n := bustest.Queued(t, c); n != 1 {
		t.Errorf("%d commands are queued, want 1", n)
	}
}
