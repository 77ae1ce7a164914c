package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/registry"
	"github.com/loopbus/loopbus/schemas"
)

const strictProfile = `{"approval":{"tools":["*"]}}`

func newProfiles(t *testing.T, c *bus.Conn) *registry.Profiles {
	t.Helper()
	p := registry.NewProfiles(c, errNone, nil)
	t.Cleanup(p.Close)
	return p
}

// strict reports whether the profile coder requires approvals.
func strict(t *testing.T, p *registry.Profiles) bool {
	t.Helper()
	profile, err := p.Profile(bustest.Deadline(t), "coder")
	return err == nil && profile.Approval != nil && profile.Approval.Asks("bash")
}

// repair runs Repair on n runners until the test ends.
func repair(t *testing.T, c *bus.Conn, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var runners sync.WaitGroup
	for range n {
		p := newProfiles(t, c)
		runners.Go(func() { p.Repair(ctx, time.Millisecond) })
	}
	t.Cleanup(func() { cancel(); runners.Wait() })
}

// flood directs n answers of the server to the key of a profile.
func flood(t *testing.T, c *bus.Conn, profile string, n int) {
	t.Helper()
	for range n {
		if err := c.NATS().PublishMsg(&nats.Msg{Subject: "agent.live.s1.update", Reply: "$KV.agent_profiles." + profile,
			Data: []byte("{}")}); err != nil {
			t.Error(err)
		}
	}
	// The server answers in order, so when this is acknowledged it has sent all answers.
	if _, err := c.JetStream().Publish(bustest.Deadline(t), "agent.live.s1.update", []byte("{}")); err != nil {
		t.Error(err)
	}
}

// stored returns the number of messages that the bucket has at the key of a profile, and the last of them.
func stored(t *testing.T, c *bus.Conn, profile string) (n uint64, last string) {
	t.Helper()
	stream, err := c.JetStream().Stream(bustest.Deadline(t), "KV_"+schemas.BucketProfiles)
	if err != nil {
		t.Fatal(err)
	}
	subject := "$KV." + schemas.BucketProfiles + "." + profile
	info, err := stream.Info(bustest.Deadline(t), jetstream.WithSubjectFilter(subject))
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetLastMsgForSubject(bustest.Deadline(t), subject)
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		t.Fatal(err)
	}
	if m != nil {
		last = string(m.Data)
	}
	return info.State.Subjects[subject], last
}

// Without a runner, no number of answers replaces a profile. A runner that starts later puts the profile again.
func TestFloodOfServerAnswersDoesNotReplaceProfile(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	kv := profileBucket(t, c)
	for _, v := range []string{`{}`, strictProfile} {
		if _, err := kv.Put(bustest.Deadline(t), "coder", []byte(v)); err != nil {
			t.Fatal(err)
		}
	}
	flood(t, c, "coder", 500)
	if !strict(t, newProfiles(t, c)) {
		t.Fatal("the profile is not valid any more")
	}
	if _, err := kv.Put(bustest.Deadline(t), "coder", []byte(`{"tools":[]}`)); err == nil {
		t.Error("a full key accepted a put, so it discarded a revision")
	}
	repair(t, c, 3)
	bustest.Eventually(t, "the profile is put again, as the only message", func() bool {
		n, last := stored(t, c, "coder")
		return n == 1 && last == strictProfile
	})
	if _, err := kv.Put(bustest.Deadline(t), "coder", []byte(`{"tools":[]}`)); err != nil {
		t.Errorf("update the profile: %v", err)
	}
}

// An answer may be stored at a key that contains a wildcard. As a filter of a purge it would match all keys.
func TestServerAnswerAtWildcardDoesNotRemoveProfile(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	if _, err := profileBucket(t, c).Put(bustest.Deadline(t), "coder", []byte(strictProfile)); err != nil {
		t.Fatal(err)
	}
	repair(t, c, 2)
	for range 3 { // a runner repairs together what it finds together, so the other key is the sign for all
		for _, key := range []string{"*", ">", "other"} {
			flood(t, c, key, 20)
		}
		bustest.Eventually(t, "the other answers are removed", func() bool { n, _ := stored(t, c, "other"); return n == 0 })
		if n, last := stored(t, c, "coder"); n != 1 || last != strictProfile {
			t.Fatalf("the profile has %d revisions, the last is %q", n, last)
		}
	}
}

// A profile that an operator has deleted, in any way, stays deleted when answers are stored at its key.
func TestDeletedProfileStaysDeleted(t *testing.T) {
	t.Parallel()
	for how, remove := range map[string]func(context.Context, jetstream.KeyValue, jetstream.Stream) error{
		"delete": func(ctx context.Context, kv jetstream.KeyValue, _ jetstream.Stream) error {
			return kv.Delete(ctx, "coder")
		},
		"purge": func(ctx context.Context, kv jetstream.KeyValue, _ jetstream.Stream) error {
			return kv.Purge(ctx, "coder")
		},
		"stream purge": func(ctx context.Context, _ jetstream.KeyValue, s jetstream.Stream) error { return s.Purge(ctx) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := bustest.New(t)
			kv := profileBucket(t, c)
			if _, err := kv.Put(bustest.Deadline(t), "coder", []byte(strictProfile)); err != nil {
				t.Fatal(err)
			}
			repair(t, c, 2)
			stream, err := c.JetStream().Stream(bustest.Deadline(t), "KV_"+schemas.BucketProfiles)
			if err == nil {
				err = remove(bustest.Deadline(t), kv, stream)
			}
			if err != nil {
				t.Fatal(err)
			}
			flood(t, c, "coder", 100)
			_, err = newProfiles(t, c).Profile(bustest.Deadline(t), "coder")
			if !errors.Is(err, errNone) {
				t.Errorf("with answers at its key: %v", err)
			}
			bustest.Eventually(t, "the answers are removed", func() bool { n, _ := stored(t, c, "coder"); return n == 0 })
			if _, err := newProfiles(t, c).Profile(bustest.Deadline(t), "coder"); !errors.Is(err, errNone) {
				t.Errorf("after the repair: %v", err)
			}
		})
	}
}

// Runners that restore a profile never undo an update, also if answers and updates arrive concurrently.
func TestRepairDoesNotOverwriteUpdates(t *testing.T) {
	t.Parallel()
	s, c := bustest.Small(t)
	repair(t, c, 3)
	reader := newProfiles(t, c)
	attacker := bustest.Connect(t, s)
	ctx, cancel := context.WithCancel(bustest.Deadline(t))
	var attack sync.WaitGroup
	attack.Go(func() {
		for ctx.Err() == nil {
			flood(t, attacker, "coder", 70)
		}
	})
	const updates = 200
	version := func() int {
		p, err := reader.Profile(bustest.Deadline(t), "coder")
		if err != nil {
			return 0
		}
		n, err := strconv.Atoi(*p.SystemPrompt)
		if err != nil {
			t.Errorf("%v", err)
		}
		return n
	}
	seen := 0
	for i := 1; i <= updates; i++ {
		msg := nats.NewMsg("$KV.agent_profiles.coder") // a full key refuses a put, but not a roll-up
		msg.Data = fmt.Appendf(nil, `{"systemPrompt":"%d"}`, i)
		msg.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
		if _, err := c.JetStream().PublishMsg(bustest.Deadline(t), msg); err != nil {
			t.Fatal(err)
		}
		now := version()
		if now < seen || now > i {
			t.Fatalf("read version %d after version %d, with %d written", now, seen, i)
		}
		seen = now
	}
	cancel()
	attack.Wait()
	bustest.Eventually(t, "the last update is valid", func() bool {
		n, last := stored(t, c, "coder")
		return n == 1 && last == fmt.Sprintf(`{"systemPrompt":"%d"}`, updates) && version() == updates
	})
}

// While a runner is live, updates do not fill a key.
func TestOutdatedRevisionsAreRemoved(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	kv := profileBucket(t, c)
	repair(t, c, 1)
	for i := range 5 {
		for range 20 {
			if _, err := kv.Put(bustest.Deadline(t), "coder", []byte(strictProfile)); err != nil {
				t.Fatal(err)
			}
		}
		bustest.Eventually(t, fmt.Sprint("in round ", i, " the older revisions are removed"), func() bool {
			n, last := stored(t, c, "coder")
			return n < 17 && last == strictProfile
		})
	}
}

// A runner that lags behind the bucket undoes neither an update nor a deletion.
func TestRepairOfStaleStateChangesNothing(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	kv := profileBucket(t, c)
	for name, change := range map[string]func(ctx context.Context) error{
		"updated":  func(ctx context.Context) error { _, err := kv.Put(ctx, "updated", []byte(`{"tools":[]}`)); return err },
		"deleted":  func(ctx context.Context) error { return kv.Delete(ctx, "deleted") },
		"purged":   func(ctx context.Context) error { return kv.Purge(ctx, "purged") },
		"answered": func(context.Context) error { flood(t, c, "answered", 1); return nil },
	} {
		revision, err := kv.Put(bustest.Deadline(t), name, []byte(strictProfile))
		if err != nil {
			t.Fatal(err)
		}
		flood(t, c, name, 1)
		if err := change(bustest.Deadline(t)); err != nil {
			t.Fatal(err)
		}
		_, before := stored(t, c, name)
		if err := newProfiles(t, c).RepairKey(bustest.Deadline(t), name, revision, revision+1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, last := stored(t, c, name); last != before {
			t.Errorf("%s: %q became %q", name, before, last)
		}
	}
}
