package streams

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

const (
	maxConsumers = 10_000 // per stream; the server's own default is 1000, too few for one per viewer or tool
	// markerTTL is how long a bucket keeps the mark of an expired entry, so that watchers see it.
	markerTTL = 30 * time.Second
	// attemptMaxAge is how long an attempt counts: longer than a supervisor waits before it starts a process again.
	attemptMaxAge    = time.Hour
	smallBucketBytes = 16 << 20 // live runners, announced tools
	profileBytes     = 64 << 20
	// consumerIdle is when a consumer ends that nobody uses, where whoever lists or reads may make consumers. It is the
	// longest that the libraries of NATS ask for (decision 136).
	consumerIdle     = 5 * time.Minute
	profileRevisions = 64 // of each; the most that the key-value buckets of NATS know
	resourceBytes    = 64 << 20
)

// streamSpecs are the streams of docs/architecture.md, and the one that timers wait in.
func streamSpecs(s schemas.Subjects, o Options) []spec {
	p := s.Prefix()
	base := jetstream.StreamConfig{Replicas: o.Replicas, MaxMsgSize: o.MaxPayload}
	counters := base
	counters.MaxMsgSize = 0
	return []spec{timerSpec(p, base), commandSpec(p, base, o), eventSpec(p, base, o), updateSpec(p, base, o),
		toolSpec(p, base, o), deadSpec(p, base, o), spentSpec(p, counters), attemptSpec(p, counters)}
}

// timerSpec is a stream of its own because schedules need roll-ups, and a stream with roll-ups can be emptied by
// whoever may publish to it: in the inbox that would be every sender of a command. Only runners publish here. What is
// due goes into the inbox as its source; a copy stays for an hour.
func timerSpec(p string, base jetstream.StreamConfig) spec {
	c := base
	c.Name = schemas.StreamTimers
	c.Description = "timers of the sessions, until they are due"
	c.Subjects = []string{p + ".sched.*.*", p + ".due.*.*"}
	c.Retention = jetstream.LimitsPolicy
	c.Discard = jetstream.DiscardOld // no other one can have schedules; a limit would lose timers, so there is none
	c.MaxMsgsPerSubject = 1          // a timer takes the place of the one of its name
	c.AllowMsgTTL = true
	c.AllowMsgSchedules = true
	c.AllowRollup = true
	c.AllowDirect = true
	return spec{want: c, given: base}
}

// commandSpec refuses new commands when the inbox is full: one that was acknowledged must not be lost. It allows no
// roll-ups, see timerSpec.
func commandSpec(p string, base jetstream.StreamConfig, o Options) spec {
	base.Duplicates, base.MaxBytes = o.DuplicateWindow, o.CommandMaxBytes
	c := base
	c.Name = schemas.StreamCommands
	c.Description = "inbox of the sessions: commands, tool results, timers"
	c.Subjects = []string{p + ".cmd.*.*"}
	c.Retention = jetstream.WorkQueuePolicy
	c.Discard = jetstream.DiscardNew
	c.MaxBytes = cmp.Or(c.MaxBytes, defaultCommandMaxBytes)
	c.Duplicates = cmp.Or(c.Duplicates, defaultDuplicateWindow)
	c.MaxConsumers = maxConsumers
	c.AllowDirect = true
	partition := fmt.Sprintf("%s.cmd.{{partition(%d,1)}}.{{wildcard(1)}}.", p, cmp.Or(o.Partitions, DefaultPartitions))
	c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: p + ".cmd.*.*",
		Destination: partition + "{{wildcard(2)}}"}
	c.Sources = []*jetstream.StreamSource{{
		Name: schemas.StreamTimers,
		SubjectTransforms: []jetstream.SubjectTransformConfig{{Source: p + ".due.*.*",
			Destination: partition + string(schemas.CommandTimer)}},
	}}
	return spec{want: c, given: base, anyPartitions: o.Partitions == 0}
}

// eventSpec denies the deletion of single messages, so that nothing can be cut out of a log. Purging stays allowed: it
// is how a whole session is given up.
func eventSpec(p string, base jetstream.StreamConfig, o Options) spec {
	base.MaxBytes = o.EventMaxBytes
	c := base
	c.Name = schemas.StreamEvents
	c.Description = "logs of the sessions"
	c.Subjects = []string{p + ".evt.*"}
	c.Retention = jetstream.LimitsPolicy
	c.Discard = jetstream.DiscardNew
	c.MaxConsumers = maxConsumers
	c.AllowDirect = true
	c.DenyDelete = true
	c.RePublish = &jetstream.RePublish{Source: p + ".evt.*", Destination: p + ".live.{{wildcard(1)}}.event"}
	return spec{want: c, given: base}
}

// updateSpec is in memory on one server. Replicas in memory elect no leader once several servers have been down, until
// all of them are up.
func updateSpec(p string, base jetstream.StreamConfig, o Options) spec {
	base.MaxAge, base.MaxBytes = o.UpdateMaxAge, o.UpdateMaxBytes
	c := base
	c.Name = schemas.StreamUpdates
	c.Description = "deltas of the last moments, for late viewers"
	c.Subjects = []string{p + ".live.*.update"}
	if o.Replicas < 2 {
		c.Storage = jetstream.MemoryStorage
	}
	c.Retention = jetstream.LimitsPolicy
	c.Discard = jetstream.DiscardOld
	c.MaxAge = cmp.Or(c.MaxAge, defaultUpdateMaxAge)
	c.MaxBytes = cmp.Or(c.MaxBytes, defaultUpdateMaxBytes)
	c.MaxConsumers = maxConsumers
	c.AllowDirect = true
	return spec{want: c, given: base, transient: true}
}

func toolSpec(p string, base jetstream.StreamConfig, o Options) spec {
	base.MaxBytes, base.Duplicates = o.ToolMaxBytes, o.ToolDuplicateWindow
	c := base
	c.Name = schemas.StreamTools
	c.Description = "tool calls waiting for a worker"
	c.Subjects = []string{p + ".tool.*.*.*"}
	c.Retention = jetstream.WorkQueuePolicy
	c.Discard = jetstream.DiscardNew
	c.MaxBytes = cmp.Or(c.MaxBytes, defaultToolMaxBytes)
	c.Duplicates = cmp.Or(c.Duplicates, defaultToolDuplicates)
	c.MaxConsumers = maxConsumers
	c.AllowDirect = true
	return spec{want: c, given: base}
}

func deadSpec(p string, base jetstream.StreamConfig, o Options) spec {
	base.MaxAge, base.MaxBytes, base.MaxMsgSize = o.DeadMaxAge, o.DeadMaxBytes, 0 // a letter is larger than its message
	c := base
	c.Name = schemas.StreamDead
	c.Description = "what could not be processed, with the reason"
	c.Subjects = []string{p + ".dead.*.*"}
	c.Retention = jetstream.LimitsPolicy
	c.Discard = jetstream.DiscardOld
	c.MaxAge = cmp.Or(c.MaxAge, defaultDeadMaxAge)
	c.MaxBytes = cmp.Or(c.MaxBytes, defaultDeadMaxBytes)
	c.AllowDirect = true
	return spec{want: c, given: base}
}

// spentSpec counts what profiles have used.
func spentSpec(p string, base jetstream.StreamConfig) spec {
	c := counterConfig(base, schemas.StreamSpent, p+".spent.*.*.*")
	c.Description = "what profiles have used of their budgets"
	c.Duplicates = defaultToolDuplicates
	return spec{want: c, given: base}
}

// attemptSpec counts for each message of the inbox the lost runners that may have begun it (package inbox).
func attemptSpec(p string, base jetstream.StreamConfig) spec {
	c := counterConfig(base, schemas.StreamAttempts, p+".attempt.*")
	c.Description = "how often commands were begun by runners that were lost"
	c.MaxAge = attemptMaxAge
	c.MaxBytes = smallBucketBytes
	return spec{want: c, given: base}
}

// counterConfig is a stream with a counter per subject. Only the newest value of each is kept.
func counterConfig(c jetstream.StreamConfig, name, subject string) jetstream.StreamConfig {
	c.Name = name
	c.Subjects = []string{subject}
	c.Retention = jetstream.LimitsPolicy
	c.Discard = jetstream.DiscardOld
	c.MaxMsgsPerSubject = 1
	c.AllowMsgCounter = true
	c.AllowDirect = true
	return c
}

// bucketSpecs are the key-value buckets and the object store. Their names do not depend on the prefix.
func bucketSpecs(o Options) []spec {
	return []spec{
		announcementSpec(o, schemas.BucketTools, "tools that workers announce", smallBucketBytes),
		announcementSpec(o, schemas.BucketResources, "what workspaces have for prompts", resourceBytes),
		kvSpec(o, jetstream.KeyValueConfig{Bucket: schemas.BucketRunners, Description: "live runners",
			MaxBytes: smallBucketBytes, LimitMarkerTTL: markerTTL}),
		kvSpec(o, jetstream.KeyValueConfig{Bucket: schemas.BucketSnapshots, Description: "states of sessions",
			MaxBytes: o.SnapshotMaxBytes}),
		kvSpec(o, jetstream.KeyValueConfig{Bucket: schemas.BucketSessions, Description: "index of the sessions",
			LimitMarkerTTL: markerTTL}),
		kvSpec(o, jetstream.KeyValueConfig{Bucket: schemas.BucketDeletions, Description: "sessions that are being deleted",
			MaxBytes: smallBucketBytes, LimitMarkerTTL: markerTTL}),
		profileSpec(o),
		objectSpec(o, jetstream.ObjectStoreConfig{Bucket: schemas.BucketBlobs,
			Description: "payloads too big for a message", MaxBytes: o.BlobMaxBytes}),
		inputSpec(o),
	}
}

func kvSpec(o Options, kv jetstream.KeyValueConfig) spec {
	kv.Replicas = o.Replicas
	kv.History = 1
	given := jetstream.StreamConfig{Replicas: o.Replicas}
	if kv.Bucket == schemas.BucketSnapshots {
		given.MaxBytes = o.SnapshotMaxBytes
	}
	return spec{
		want: jetstream.StreamConfig{
			Name: "KV_" + kv.Bucket, Subjects: []string{"$KV." + kv.Bucket + ".>"}, Discard: jetstream.DiscardNew,
			AllowDirect: true, AllowRollup: true, DenyDelete: true,
			AllowMsgTTL: kv.LimitMarkerTTL > 0, SubjectDeleteMarkerTTL: kv.LimitMarkerTTL,
		},
		given: given,
		create: func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.CreateKeyValue(ctx, kv)
			return err
		},
	}
}

// profileSpec is a bucket that gives up no profile for what comes after it: a key that has all its revisions takes no
// more but a roll-up, until runners have removed those that no longer count (decision 69).
func profileSpec(o Options) spec {
	s := kvSpec(o, jetstream.KeyValueConfig{Bucket: schemas.BucketProfiles, Description: "named agents",
		MaxBytes: profileBytes})
	s.want.MaxMsgsPerSubject, s.want.DiscardNewPerSubject = profileRevisions, true
	s.want.ConsumerLimits.InactiveThreshold = consumerIdle
	return s
}

// announcementSpec is a bucket that workers write, each its own keys. It allows no roll-ups, see timerSpec, so the
// server cannot mark what has expired: readers have to know it by the time to live of an entry (decision 59).
func announcementSpec(o Options, bucket, description string, maxBytes int64) spec {
	return spec{
		want: jetstream.StreamConfig{
			Name: "KV_" + bucket, Description: description, Subjects: []string{"$KV." + bucket + ".>"},
			Replicas: o.Replicas, MaxBytes: maxBytes, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew,
			AllowDirect: true, DenyDelete: true, AllowMsgTTL: true,
			ConsumerLimits: jetstream.StreamConsumerLimits{InactiveThreshold: consumerIdle},
		},
		given:     jetstream.StreamConfig{Replicas: o.Replicas},
		noRollups: true,
	}
}

// Inputs are there for runners to take; what they take is kept in the log.
// Their pieces have 128 KiB, so that the messages are bounded for those who upload nothing in many.
const (
	inputBytes    = 1 << 30
	inputMessages = 1 << 16
	inputAge      = 24 * time.Hour
)

// inputSpec is an object store that clients write. It allows no roll-ups, see timerSpec: with one, who uploads an input
// could remove all others (decision 121). So no library's object store can write it; any can read it.
func inputSpec(o Options) spec {
	prefix := "$O." + schemas.BucketInputs
	return spec{
		want: jetstream.StreamConfig{
			Name: "OBJ_" + schemas.BucketInputs, Description: "inputs too big for a command",
			Subjects: []string{prefix + ".C.>", prefix + ".M.>"}, Replicas: o.Replicas,
			MaxBytes: inputBytes, MaxMsgs: inputMessages, MaxAge: inputAge, Discard: jetstream.DiscardNew, AllowDirect: true,
			DenyDelete: true,
		},
		given: jetstream.StreamConfig{Replicas: o.Replicas, MaxBytes: inputBytes, MaxMsgs: inputMessages,
			MaxAge: inputAge},
		noRollups: true,
	}
}

func objectSpec(o Options, store jetstream.ObjectStoreConfig) spec {
	store.Replicas = o.Replicas
	name := store.Bucket
	return spec{
		want: jetstream.StreamConfig{
			Name: "OBJ_" + name, Subjects: []string{"$O." + name + ".C.>", "$O." + name + ".M.>"},
			Discard: jetstream.DiscardNew, AllowDirect: true, AllowRollup: true,
			ConsumerLimits: jetstream.StreamConsumerLimits{InactiveThreshold: consumerIdle},
		},
		given: jetstream.StreamConfig{Replicas: o.Replicas, MaxBytes: store.MaxBytes, MaxAge: store.TTL},
		create: func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.CreateObjectStore(ctx, store)
			return err
		},
	}
}

var partitionRE = regexp.MustCompile(`\{\{\s*partition\((\d+),\s*1\)\s*\}\}`)

// Partitions returns the number of partitions that the inbox has on the server.
func Partitions(ctx context.Context, c *bus.Conn) (int, error) {
	s, err := c.JetStream().Stream(ctx, schemas.StreamCommands)
	if err != nil {
		return 0, fmt.Errorf("streams: partitions of %s: %w", schemas.StreamCommands, err)
	}
	m := partitionRE.FindStringSubmatch(transform(s.CachedInfo().Config))
	if m == nil {
		return 0, &IncompatibleError{Stream: schemas.StreamCommands, Setting: "subject transform",
			Have: transform(s.CachedInfo().Config), Want: "a partition of the session", Hint: hintRecreate}
	}
	return strconv.Atoi(m[1])
}
