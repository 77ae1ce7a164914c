package streams

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

const (
	maxConsumers = 10_000 // per stream; the server's default of 1000 is too few for one per viewer or tool
	// markerTTL is how long a bucket keeps the delete marker of an expired entry, so that watchers receive it.
	markerTTL = 30 * time.Second
	// attemptMaxAge is how long an attempt counts: longer than a supervisor waits before it restarts a process.
	attemptMaxAge    = time.Hour
	smallBucketBytes = 16 << 20 // live runners, announced tools
	profileBytes     = 64 << 20
	profileMessages  = 1 << 16 // values of all profiles; each runner has the profiles in memory
	// consumerIdle is the inactivity limit of consumers in streams where any reader may create them. It is the longest
	// that the NATS client libraries request (decision 136).
	consumerIdle = 5 * time.Minute
	// queueIdle is the inactivity limit of tool queues, so that tools that nobody serves any more do not use up the
	// consumers of the stream. Calls wait in the stream, also without a queue.
	queueIdle     = 24 * time.Hour
	keptRevisions = 64 // of each key; the most that NATS key-value buckets allow
	resourceBytes = 64 << 20
)

// streamSpecs returns the streams of docs/architecture.md and the stream of timers.
func streamSpecs(s schemas.Subjects, o Options) []spec {
	p, base := s.Prefix(), o.base()
	return []spec{timerSpec(p, base), commandSpec(p, base, o), eventSpec(p, base, o), updateSpec(p, base),
		toolSpec(p, base, o), deadSpec(p, base), spentSpec(p, base), attemptSpec(p, base)}
}

func (o Options) base() jetstream.StreamConfig {
	return jetstream.StreamConfig{Replicas: o.Replicas, MaxMsgSize: o.maxMessage}
}

// timerSpec is a stream of its own because schedules need roll-ups, and any client that may publish to a stream with
// roll-ups can empty it: for the inbox that would be every sender of a command. Only runners publish to this stream. It
// is a source of the inbox, which so receives timers that are due; a copy stays here for an hour.
func timerSpec(p string, base jetstream.StreamConfig) spec {
	c := base
	c.Name = schemas.StreamTimers
	c.Description = "timers of the sessions, until they are due"
	c.Subjects = []string{p + ".sched.*.*", p + ".due.*.*"}
	c.Retention = jetstream.LimitsPolicy
	c.Discard = jetstream.DiscardOld // schedules need it; a limit would lose timers, so there is none
	c.MaxMsgsPerSubject = 1          // a timer replaces the one with its name
	c.MaxMsgSize = maxTimer
	c.AllowMsgTTL = true
	c.AllowMsgSchedules = true
	c.AllowRollup = true
	c.AllowDirect = true
	return spec{want: c, given: base}
}

// commandsPerSubject is how many commands of a kind may wait in a session's inbox. A session queues that many inputs.
const commandsPerSubject = 1000

// commandSpec refuses new commands when the inbox is full: an acknowledged command must not be lost. A client that
// sends too many commands of a kind to a session is refused alone (decision 134). Due timers have subjects of their
// own, which no client can fill: a source stops at a message for whose subject there is no room. The inbox allows no
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
	c.MaxMsgsPerSubject, c.DiscardNewPerSubject = commandsPerSubject, true
	c.MaxConsumers = maxConsumers
	c.AllowDirect = true
	partition := fmt.Sprintf("%s.cmd.{{partition(%d,1)}}.{{wildcard(1)}}.", p, cmp.Or(o.Partitions, DefaultPartitions))
	c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: p + ".cmd.*.*",
		Destination: strings.ReplaceAll(partition+"{{wildcard(2)}}", wildcardBefore, wildcardTimed)}
	c.Sources = []*jetstream.StreamSource{{
		Name: schemas.StreamTimers,
		SubjectTransforms: []jetstream.SubjectTransformConfig{{Source: p + ".due.*.*",
			Destination: partition + string(schemas.CommandTimer) + ".{{wildcard(2)}}"}},
	}}
	c.Metadata = map[string]string{schemas.MetadataInbox: newInboxName()}
	return spec{want: c, given: base, anyPartitions: o.Partitions == 0}
}

// eventSpec denies the deletion of single messages, so that no event can be removed from a log. Purging stays allowed:
// it deletes a whole session.
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

// updateSpec is in memory if it has no replicas. Replicas in memory elect no leader after several servers have been
// down, until all of them are up.
func updateSpec(p string, base jetstream.StreamConfig) spec {
	c := base
	c.Name = schemas.StreamUpdates
	c.Description = "deltas of the last moments, for late viewers"
	c.Subjects = []string{p + ".live.*.update"}
	if base.Replicas < 2 {
		c.Storage = jetstream.MemoryStorage
	}
	c.Retention = jetstream.LimitsPolicy
	c.Discard = jetstream.DiscardOld
	c.MaxAge, c.MaxBytes = updateAge, updateBytes
	c.MaxConsumers = maxConsumers
	c.AllowDirect = true
	return spec{want: c, given: base, transient: true}
}

func toolSpec(p string, base jetstream.StreamConfig, o Options) spec {
	base.MaxBytes = o.ToolMaxBytes
	c := base
	c.Name = schemas.StreamTools
	c.Description = "tool calls waiting for a worker"
	c.Subjects = []string{p + ".tool.*.*.*"}
	c.Retention = jetstream.WorkQueuePolicy
	c.Discard = jetstream.DiscardNew
	c.MaxBytes = cmp.Or(c.MaxBytes, defaultToolMaxBytes)
	c.Duplicates = toolDuplicateWindow
	c.MaxConsumers = maxConsumers
	c.ConsumerLimits.InactiveThreshold = queueIdle
	c.AllowDirect = true
	return spec{want: c, given: base}
}

func deadSpec(p string, base jetstream.StreamConfig) spec {
	c := base
	c.Name = schemas.StreamDead
	c.Description = "what could not be processed, with the reason"
	c.Subjects = []string{p + ".dead.*.*"}
	c.Retention = jetstream.LimitsPolicy
	c.Discard = jetstream.DiscardOld
	c.MaxAge, c.MaxBytes = deadAge, deadBytes
	c.AllowDirect = true
	return spec{want: c, given: base}
}

// spentSpec has the counters of the profiles' usage.
func spentSpec(p string, base jetstream.StreamConfig) spec {
	c := counterConfig(base, schemas.StreamSpent, p+".spent.*.*.*")
	c.Description = "what profiles have used of their budgets"
	c.Duplicates = toolDuplicateWindow
	return spec{want: c, given: base}
}

// attemptSpec has a counter for each message of the inbox: the runners that were lost after they may have begun it
// (package inbox).
func attemptSpec(p string, base jetstream.StreamConfig) spec {
	c := counterConfig(base, schemas.StreamAttempts, p+".attempt.*")
	c.Description = "how often commands were begun by runners that were lost"
	c.MaxAge = attemptMaxAge
	c.MaxBytes = smallBucketBytes
	return spec{want: c, given: base}
}

// counterConfig returns a stream with a counter per subject. It keeps only the newest value of each.
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

// bucketSpecs returns the key-value buckets and the object stores. Their names do not depend on the prefix.
func bucketSpecs(o Options) []spec {
	return []spec{
		announcementSpec(o, schemas.BucketTools, "tools that workers announce", smallBucketBytes),
		announcementSpec(o, schemas.BucketResources, "what workspaces have for prompts", resourceBytes),
		kvSpec(o, jetstream.KeyValueConfig{Bucket: schemas.BucketRunners, Description: "live runners",
			MaxBytes: smallBucketBytes, LimitMarkerTTL: markerTTL}),
		kvSpec(o, jetstream.KeyValueConfig{Bucket: schemas.BucketSnapshots, Description: "states of sessions"}),
		kvSpec(o, jetstream.KeyValueConfig{Bucket: schemas.BucketSessions, Description: "index of the sessions",
			LimitMarkerTTL: markerTTL}),
		keepingSpec(o, jetstream.KeyValueConfig{Bucket: schemas.BucketDeletions,
			Description: "sessions that are being deleted", MaxBytes: smallBucketBytes, LimitMarkerTTL: markerTTL}),
		profileSpec(o),
		objectSpec(o, jetstream.ObjectStoreConfig{Bucket: schemas.BucketBlobs,
			Description: "payloads too big for a message", MaxBytes: o.BlobMaxBytes}),
		inputSpec(o),
	}
}

func kvSpec(o Options, kv jetstream.KeyValueConfig) spec {
	kv.Replicas, kv.MaxValueSize = o.Replicas, o.maxMessage
	kv.History = 1
	return spec{
		want: jetstream.StreamConfig{
			Name: "KV_" + kv.Bucket, Subjects: []string{"$KV." + kv.Bucket + ".>"}, Discard: jetstream.DiscardNew,
			MaxMsgSize: o.maxMessage, MaxMsgsPerSubject: int64(kv.History),
			AllowDirect: true, AllowRollup: true, DenyDelete: true,
			AllowMsgTTL: kv.LimitMarkerTTL > 0, SubjectDeleteMarkerTTL: kv.LimitMarkerTTL,
		},
		given: jetstream.StreamConfig{Replicas: o.Replicas},
		create: func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.CreateKeyValue(ctx, kv)
			return err
		},
	}
}

// keepingSpec returns a bucket that drops no value for a newer one: a key with all its revisions accepts only a roll-up
// (decisions 69 and 79).
func keepingSpec(o Options, kv jetstream.KeyValueConfig) spec {
	s := kvSpec(o, kv)
	s.want.MaxMsgsPerSubject, s.want.DiscardNewPerSubject = keptRevisions, true
	return s
}

// profileSpec returns the bucket of profiles. Runners remove the revisions that no longer count.
func profileSpec(o Options) spec {
	s := keepingSpec(o, jetstream.KeyValueConfig{Bucket: schemas.BucketProfiles, Description: "named agents",
		MaxBytes: profileBytes})
	s.want.MaxMsgs = profileMessages
	s.want.ConsumerLimits.InactiveThreshold = consumerIdle
	return s
}

// announcementSpec returns a bucket in which each worker writes its own keys. It allows no roll-ups, see timerSpec, so
// the server cannot store markers of expired entries: readers compute expiry from an entry's time to live (decision
// 59).
func announcementSpec(o Options, bucket, description string, maxBytes int64) spec {
	return spec{
		want: jetstream.StreamConfig{
			Name: "KV_" + bucket, Description: description, Subjects: []string{"$KV." + bucket + ".>"},
			Replicas: o.Replicas, MaxBytes: maxBytes, MaxMsgSize: o.maxMessage, MaxMsgsPerSubject: 1,
			Discard: jetstream.DiscardNew, AllowDirect: true, DenyDelete: true, AllowMsgTTL: true,
			ConsumerLimits: jetstream.StreamConsumerLimits{InactiveThreshold: consumerIdle},
		},
		given:     jetstream.StreamConfig{Replicas: o.Replicas},
		noRollups: true,
	}
}

// Limits of the object store of inputs. A runner copies an input into the log when it accepts the command. Chunks have
// 128 KiB; the limit of messages is for clients that upload many small ones.
const (
	inputBytes    = 1 << 30
	inputMessages = 1 << 16
	inputAge      = 24 * time.Hour
)

// inputSpec returns an object store to which clients write. It allows no roll-ups, see timerSpec: with one, a client
// that uploads an input could remove all others (decision 121). Therefore the object stores of the NATS client
// libraries can read it, but not write it.
func inputSpec(o Options) spec {
	prefix := "$O." + schemas.BucketInputs
	return spec{
		want: jetstream.StreamConfig{
			Name: "OBJ_" + schemas.BucketInputs, Description: "inputs too big for a command",
			Subjects: []string{prefix + ".C.>", prefix + ".M.>"}, Replicas: o.Replicas,
			MaxBytes: inputBytes, MaxMsgs: inputMessages, MaxMsgSize: o.maxMessage, MaxAge: inputAge,
			Discard: jetstream.DiscardNew, AllowDirect: true, DenyDelete: true,
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
			MaxMsgSize: o.maxMessage, Discard: jetstream.DiscardNew, AllowDirect: true, AllowRollup: true,
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
