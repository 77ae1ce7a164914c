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

// strict reports whether the profile coder asks for approvals.
func strict(t *testing.T, p *registry.Profiles) bool {
	t.Helper()
	profile, err := p.Profile(bustest.Deadline(t), "coder")
	return err == nil && profile.Approval != nil && profile.Approval.Asks("bash")
}

// repair has n runners repair the bucket all the time until the test ends.
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

// flood has the server answer n times at the key of a profile.
func flood(t *testing.T, c *bus.Conn, profile string, n int) {
	t.Helper()
	for range n {
		if err := c.NATS().PublishMsg(&nats.Msg{Subject: "agent.live.s1.update", Reply: "$KV.agent_profiles." + profile,
			Data: []byte("{}")}); err != nil {
			t.Error(err)
		}
	}
	// The stream of updates has answered all before this.
	if _, err := c.JetStream().Publish(bustest.Deadline(t), "agent.live.s1.update", []byte("{}")); err != nil {
		t.Error(err)
	}
}

// kept is what the bucket has on the key of a profile: how many messages, and the last of them.
func kept(t *testing.T, c *bus.Conn, profile string) (n uint64, last string) {
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

// However many answers there are, none takes a profile's place while no runner is there; and a runner that comes puts
// the profile again.
func TestAFloodOfAnswersTakesNoProfileAway(t *testing.T) {
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
		t.Fatal("the profile is gone")
	}
	if _, err := kv.Put(bustest.Deadline(t), "coder", []byte(`{"tools":[]}`)); err == nil {
		t.Error("a full key took another value: it has lost one")
	}
	repair(t, c, 3)
	bustest.Eventually(t, "the profile is put again, alone", func() bool {
		n, last := kept(t, c, "coder")
		return n == 1 && last == strictProfile
	})
	if _, err := kv.Put(bustest.Deadline(t), "coder", []byte(`{"tools":[]}`)); err != nil {
		t.Errorf("it cannot be changed: %v", err)
	}
}

// A profile that an operator has deleted, however that was done, stays deleted under answers.
func TestADeletedProfileStaysDeleted(t *testing.T) {
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
				t.Errorf("under answers: %v", err)
			}
			bustest.Eventually(t, "the answers are gone", func() bool { n, _ := kept(t, c, "coder"); return n == 0 })
			if _, err := newProfiles(t, c).Profile(bustest.Deadline(t), "coder"); !errors.Is(err, errNone) {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// Runners that put a profile again never undo an update, whatever comes at the same time.
func TestRepairOverwritesNoUpdate(t *testing.T) {
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
		msg := nats.NewMsg("$KV.agent_profiles.coder") // a put is refused while the key is full, this is not
		msg.Data = fmt.Appendf(nil, `{"systemPrompt":"%d"}`, i)
		msg.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
		if _, err := c.JetStream().PublishMsg(bustest.Deadline(t), msg); err != nil {
			t.Fatal(err)
		}
		now := version()
		if now < seen || now > i {
			t.Fatalf("after %d, the profile is of %d, when %d were written", seen, now, i)
		}
		seen = now
	}
	cancel()
	attack.Wait()
	bustest.Eventually(t, "the last update counts", func() bool {
		n, last := kept(t, c, "coder")
		return n == 1 && last == fmt.Sprintf(`{"systemPrompt":"%d"}`, updates) && version() == updates
	})
}

// Updates do not fill a key while a runner is there.
func TestRevisionsThatNoLongerCountAreRemoved(t *testing.T) {
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
		bustest.Eventually(t, fmt.Sprint("in round ", i, " the older ones are gone"), func() bool {
			n, last := kept(t, c, "coder")
			return n < 17 && last == strictProfile
		})
	}
}

// A runner that is behind undoes neither an update nor a deletion: what it would put again counts no more.
func TestARunnerThatIsBehindUndoesNothing(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	kv := profileBucket(t, c)
	for name, change := range map[string]func(ctx context.Context) error{
		"updated":  func(ctx context.Context) error { _, err := kv.Put(ctx, "updated", []byte(`{"tools":[]}`)); return err },
		"deleted":  func(ctx context.Context) error { return kv.Delete(ctx, "deleted") },
		"purged":   func(ctx context.Context) error { return kv.Purge(ctx, "purged") },
		"answered": func(context.Context) error { flood(t, c, "answered", 1); return nil },
	} {
		said, err := kv.Put(bustest.Deadline(t), name, []byte(strictProfile))
		if err != nil {
			t.Fatal(err)
		}
		flood(t, c, name, 1)
		if err := change(bustest.Deadline(t)); err != nil {
			t.Fatal(err)
		}
		_, before := kept(t, c, name)
		if err := newProfiles(t, c).RepairKey(bustest.Deadline(t), name, said, said+1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, last := kept(t, c, name); last != before {
			t.Errorf("%s: %q became %q", name, before, last)
		}
	}
}
