package index_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/schemas"
)

// never delays comparisons after the first one until long after the test.
func never(o index.Options) index.Options {
	o.Check, o.Audit = time.Hour, time.Hour
	return o
}

// The runner that drives a session writes its entry, and all runners receive it.
func TestAllRunnersReceiveEntries(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := r.open(never(r.quick())), r.open(never(r.quick()))
	s := r.session(one, "s1")
	s.say(turn(1, "list the files")...)
	e := reaches(t, two, "s1", 8)
	want := schemas.SessionSummary{Session: "s1", Seq: 8, Status: schemas.SessionIdle, Title: "list the files",
		LastMessage: "answer to list the files", LastRole: schemas.RoleAssistant, Model: &schemas.ModelRef{ID: "m"},
		Runs: 1, Turns: 1, Usage: schemas.Usage{Input: 10, Output: 5, TotalTokens: 15, Cost: schemas.Cost{Total: 0.5}},
		Reason: schemas.EndNoToolCalls, Created: e.Summary.Created, LastActivity: e.Summary.LastActivity}
	if d := cmp.Diff(want, e.Summary); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if e.ContextTokens != 15 || e.Messages != 2 {
		t.Errorf("%+v", e)
	}
	if err := two.Wait(t.Context(), e.Revision()); err != nil || two.View().Partial {
		t.Errorf("at revision %d: %v, partial %v", e.Revision(), err, two.View().Partial)
	}
}

// A busy session is written once per interval, not once per event.
func TestWritesAreCombined(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := never(r.quick())
	o.Interval = time.Hour
	ix := r.open(o)
	var writes int
	seen := make(chan struct{}, 1000)
	sub, err := r.conn.NATS().Subscribe("$KV."+schemas.BucketSessions+".*.*", func(*nats.Msg) { seen <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	s := r.session(ix, "s1")
	for n := range 50 {
		s.say(&schemas.CommandRejected{CommandID: fmt.Sprint("c", n), Kind: schemas.CommandSteer, Code: "busy", Reason: "x"})
	}
	first := reaches(t, ix, "s1", 1).Summary.Seq
	s.say(turn(1, "x")...)
	ix.Close() // writes the remaining changes
	if err := r.conn.NATS().Flush(); err != nil {
		t.Fatal(err)
	}
	for len(seen) > 0 {
		<-seen
		writes++
	}
	if writes != 2 {
		t.Errorf("%d writes for 58 events, the first at seq %d", writes, first)
	}
	if got := reaches(t, r.open(never(r.quick())), "s1", 1).Summary.Seq; got != 58 {
		t.Errorf("the entry is at seq %d after the index was closed", got)
	}
}

// blockedLogs are logs whose Head blocks until release is closed. A write of a new entry calls Head after it has stored
// the entry.
type blockedLogs struct {
	index.Logs
	call    func() // closes called
	called  chan struct{}
	release chan struct{}
}

func (l blockedLogs) Head(ctx context.Context, session string) (seq, stream uint64, err error) {
	l.call()
	<-l.release
	return l.Logs.Head(ctx, session)
}

// Close writes the events that arrived during a write before it returns.
func TestCloseWritesEventsThatArrivedDuringWrite(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := never(r.quick())
	logs := blockedLogs{Logs: o.Logs, called: make(chan struct{}), release: make(chan struct{})}
	logs.call = sync.OnceFunc(func() { close(logs.called) }) // a later write may call Head again
	o.Logs = logs
	ix := r.open(o)
	bustest.Eventually(t, "the first comparison is completed", func() bool { return !ix.View().Partial })
	s := r.session(ix, "s1")
	s.say(turn(1, "x")...)
	<-logs.called
	s.say(turn(2, "y")...)
	s.track.Close() // during the write
	close(logs.release)
	ix.Close()
	if got := reaches(t, r.open(never(r.quick())), "s1", 1).Summary.Seq; got != 16 {
		t.Errorf("the entry is at seq %d after the index was closed", got)
	}
}

// Entries that were not written because a runner died are folded from the logs: that of a new session, and that of a
// session with new events.
func TestMissingEntriesAreRepaired(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ix := r.open(r.quick())
	known := r.session(ix, "known")
	known.say(turn(1, "one")...)
	reaches(t, ix, "known", 8)
	known.track.Close()
	known.track = nil // as if its runner dies before it writes
	known.say(turn(2, "two")...)
	r.session(nil, "unseen").say(turn(1, "three")...)
	for id, seq := range map[string]uint64{"known": 16, "unseen": 8} {
		e := reaches(t, ix, id, seq)
		if e.Summary.Runs != int(seq/8) || e.Summary.Turns != e.Summary.Runs || e.Messages != 2*e.Summary.Runs {
			t.Errorf("%s: %+v", id, e.Summary)
		}
	}
	reaches(t, r.open(never(r.quick())), "unseen", 8) // the bucket contains it
}

// If the entry of a session lags behind its log, the track reads the missing events from the log.
func TestTrackWithOutdatedEntry(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.session(nil, "s1").say(turn(1, "one")...)
	ix := r.open(never(r.quick()))
	reaches(t, ix, "s1", 8) // the first comparison
	other := r.session(nil, "s1")
	other.say(turn(2, "two")...)
	other.log.Close()
	s := r.session(ix, "s1")
	s.say(turn(3, "three")...)
	if e := reaches(t, ix, "s1", 24); e.Summary.Runs != 3 || e.Summary.Title != "one" {
		t.Errorf("%+v", e.Summary)
	}
	s.say(turn(4, "four")...)
	if e := reaches(t, ix, "s1", 32); e.Summary.Runs != 4 || e.Messages != 8 {
		t.Errorf("%+v", e.Summary)
	}
}

// No entry is written with an event that the log does not contain, because another writer was first.
func TestUnstoredEventsAreNotIndexed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ix := r.open(never(r.quick()))
	bustest.Eventually(t, "the first comparison is completed", func() bool { return !ix.View().Partial })
	loser := r.session(ix, "s1")
	loser.say(turn(1, "first")...)
	reaches(t, ix, "s1", 8)
	winner := r.session(nil, "s1")
	winner.say(turn(2, "stored")...)
	loser.append(turn(2, "lost")...)
	if err := loser.log.Flush(t.Context()); !errors.Is(err, schemas.ErrConflict) {
		t.Fatalf("two writers: %v", err)
	}
	loser.log.Close()
	ix.Close() // writes pending changes
	kv, err := r.conn.JetStream().KeyValue(t.Context(), schemas.BucketSessions)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := kv.Get(t.Context(), "v1.s1"); err != nil || strings.Contains(string(e.Value()), "lost") {
		t.Fatalf("the loser has written: %v, %v", e, err)
	}
	ix = r.open(r.quick())
	if e := reaches(t, ix, "s1", 16); e.Summary.LastMessage != "answer to stored" {
		t.Errorf("%+v", e.Summary)
	}
	r.session(ix, "s1").say(turn(3, "next")...)
	if e := reaches(t, ix, "s1", 24); e.Summary.Title != "first" || e.Summary.Runs != 3 {
		t.Errorf("%+v", e.Summary)
	}
}

// If the bucket is deleted, while an index follows it or while none does, it is rebuilt from the logs.
func TestLostIndexIsRebuilt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ix := r.open(r.quick())
	for n := range 30 {
		r.session(nil, fmt.Sprintf("s%02d", n)).say(turn(1, fmt.Sprint("number ", n))...)
	}
	whole := func(ix *index.Index) func() bool {
		return func() bool { v := ix.View(); return len(v.Entries) == 30 && !v.Partial }
	}
	bustest.Eventually(t, "all are listed", whole(ix))
	if err := r.conn.JetStream().DeleteKeyValue(t.Context(), schemas.BucketSessions); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the bucket is there again", func() bool {
		kv, err := r.conn.JetStream().KeyValue(t.Context(), schemas.BucketSessions)
		if err != nil {
			return false
		}
		status, err := kv.Status(t.Context())
		return err == nil && status.Values() == 31 // and the checkpoint
	})
	bustest.Eventually(t, "all are listed again", whole(ix))
	ix.Close()
	if err := r.conn.JetStream().DeleteKeyValue(t.Context(), schemas.BucketSessions); err != nil {
		t.Fatal(err)
	}
	one, two := r.open(r.quick()), r.open(r.quick())
	bustest.Eventually(t, "both have all", func() bool { return whole(one)() && whole(two)() })
	for _, e := range one.View().Entries {
		if e.Summary.Runs != 1 || e.Summary.Seq != 8 {
			t.Errorf("%+v", e.Summary)
		}
	}
}

// The entry of a session is deleted after its log was deleted, and the session's id can be reused.
func TestDeletedSessionLosesItsEntry(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ix := r.open(r.quick())
	r.session(nil, "s1").say(turn(1, "old")...)
	r.session(nil, "s2").say(turn(1, "other")...)
	reaches(t, ix, "s1", 8)
	purge := func() {
		t.Helper()
		s, err := r.conn.JetStream().Stream(t.Context(), schemas.StreamEvents)
		if err == nil {
			err = s.Purge(t.Context(), purgeOf("agent.evt.s1"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	purge()
	bustest.Eventually(t, "s1 is not listed", func() bool { return ix.Get("s1") == nil && ix.Get("s2") != nil })
	r.session(nil, "s1").say(turn(1, "new")...)
	if e := reaches(t, ix, "s1", 8); e.Summary.Title != "new" {
		t.Errorf("%+v", e.Summary)
	}
	purge()
	r.session(ix, "s1").say(turn(1, "newest")[:4]...) // before the index has noticed the deletion
	bustest.Eventually(t, "s1 is the newest", func() bool {
		e := ix.Get("s1")
		return e != nil && e.Summary.Title == "newest" && e.Summary.Seq == 4
	})
}

// A session whose log cannot be read is listed as damaged. Other sessions are listed as usual.
func TestDamagedLogsAreListed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ix := r.open(r.quick())
	r.session(nil, "s1").say(turn(1, "good")...)
	reaches(t, ix, "s1", 8)
	r.spoil("s1", nats.Header{schemas.HeaderCommit: {"v2 9-9"}})
	r.spoil("foreign", nil)
	r.session(nil, "s2").say(turn(1, "other")...)
	reaches(t, ix, "s2", 8)
	bustest.Eventually(t, "s1 is damaged", func() bool { return ix.Get("s1").Summary.Status == schemas.SessionDamaged })
	if e := ix.Get("s1"); e.Summary.Title != "good" || e.Summary.Error == "" {
		t.Errorf("%+v", e.Summary)
	}
	bustest.Eventually(t, "the list is complete", func() bool { return !ix.View().Partial })
	if ix.Get("foreign") != nil {
		t.Error("a session is listed that has no log")
	}
	// Foreign messages on the subject of a log affect neither its readers nor its next writer.
	s := r.session(nil, "s2")
	r.spoil("s2", nil)
	s.say(turn(2, "more")...)
	r.spoil("s2", nil)
	if e := reaches(t, ix, "s2", 16); e.Summary.Status != schemas.SessionIdle || e.Summary.Runs != 2 {
		t.Errorf("%+v", e.Summary)
	}
}

// unreadable are Logs that do not read a session's log, for a reason that is none of the log's.
type unreadable struct {
	index.Logs
	session string
}

func (u unreadable) Head(ctx context.Context, session string) (seq, stream uint64, err error) {
	if session == u.session {
		return 0, 0, errors.New("it is not read")
	}
	return u.Logs.Head(ctx, session)
}

// A log that is not read keeps no other session from the list, which says that it is partial.
func TestOneLogKeepsNoOtherFromTheList(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var sessions []string
	for n := range 20 {
		sessions = append(sessions, fmt.Sprintf("s%d", n))
		r.session(nil, sessions[n]).say(turn(1, "good")...)
	}
	o := never(r.quick())
	o.Logs = unreadable{r.store, "s7"}
	ix := r.open(o)
	for _, session := range sessions {
		if session != "s7" {
			reaches(t, ix, session, 8)
		}
	}
	if !ix.View().Partial {
		t.Error("the list is not partial")
	}
}

// Fresh and Outcome return the state of the log, for a session of this process and for that of another.
func TestFreshAndOutcome(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ix := r.open(never(r.quick()))
	if _, err := ix.Fresh(t.Context(), "s1"); !errors.Is(err, index.ErrNoSession) {
		t.Errorf("unknown session: %v", err)
	}
	s := r.session(ix, "s1")
	s.say(&schemas.CommandAccepted{CommandID: "p1", Kind: schemas.CommandPrompt, Queue: schemas.QueuePrompts,
		Data: []byte(`{"text":"x"}`), Follows: []schemas.Follow{}},
		&schemas.CommandApplied{CommandID: "p1", Kind: schemas.CommandPrompt},
		&schemas.CommandRejected{CommandID: "p2", Kind: schemas.CommandPrompt, Code: "busy", Reason: "x"})
	s.append(&schemas.CommandSuperseded{CommandID: "p1", Kind: schemas.CommandPrompt, By: "p3"}) // not stored yet
	if e, err := ix.Fresh(t.Context(), "s1"); err != nil || e.Summary.Seq < 3 {
		t.Errorf("%+v, %v", e, err)
	}
	reader := r.open(never(r.quick()))
	for name, ix := range map[string]*index.Index{"driver": ix, "reader": reader} {
		for id, want := range map[string]schemas.EventType{"p1": schemas.EventCommandApplied,
			"p2": schemas.EventCommandRejected} {
			e, seq, found, err := ix.Outcome(t.Context(), "s1", id)
			if err != nil || !found || e.Type() != want || seq != 3 {
				t.Errorf("%s: %s is %v at %d of %d: %v", name, id, e.Data, e.Seq, seq, err)
			}
		}
		if _, _, found, err := ix.Outcome(t.Context(), "s1", "p9"); found || err != nil {
			t.Errorf("%s: an unknown command was found, %v", name, err)
		}
	}
	if _, _, found, err := reader.Outcome(t.Context(), "none", "p1"); found || err != nil {
		t.Errorf("an unknown session: %v %v", found, err)
	}
}

// Views are ordered by latest activity, and later changes do not modify a view.
func TestViewOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ix := r.open(never(r.quick()))
	var sessions []*session
	for n := range 5 {
		s := r.session(ix, fmt.Sprint("s", n))
		s.say(turn(1, "x")...)
		reaches(t, ix, s.id, 8)
		sessions = append(sessions, s)
	}
	before := ix.View()
	sessions[2].say(turn(2, "y")...)
	reaches(t, ix, "s2", 16)
	after := ix.View()
	if after.Revision <= before.Revision || before.Entries[2].Summary.Seq != 8 ||
		after.Entries[0].Summary.Session != "s2" {
		t.Errorf("revision %d after %d; the first is %+v", after.Revision, before.Revision, after.Entries[0].Summary)
	}
	for _, v := range []index.View{before, after} {
		for i := 1; i < len(v.Entries); i++ {
			if v.Entries[i-1].Place().Compare(v.Entries[i].Place()) >= 0 {
				t.Errorf("%v stands before %v", v.Entries[i-1].Place(), v.Entries[i].Place())
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := ix.Wait(ctx, after.Revision+1000); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait for a future revision: %v", err)
	}
}

// Whoever may send commands to a session has its runner search the log, but not all the time.
func TestSearchesForOutcomesRest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ix := r.open(never(r.quick()))
	s := r.session(ix, "s1")
	for range 10 {
		s.say(&schemas.CommandRejected{CommandID: "p2", Kind: schemas.CommandPrompt, Code: "busy", Reason: "x"})
	}
	took := func(search func() (found bool, err error)) time.Duration {
		begun := time.Now()
		if found, err := search(); found || err != nil {
			t.Errorf("an unknown command: %v, %v", found, err)
		}
		return time.Since(begun)
	}
	least, rested := time.Hour, time.Duration(0)
	for range 20 {
		least = min(least, took(func() (bool, error) { // a query is answered at once, whatever senders do
			_, _, found, err := ix.Outcome(t.Context(), "s1", "p9")
			return found, err
		}))
		rested += took(func() (bool, error) {
			_, found, err := ix.SearchOutcome(t.Context(), "s1", "p9")
			return found, err
		})
	}
	if rested < 20*4*least {
		t.Errorf("20 queries took at least %v each, as many searches for senders %v together", least, rested)
	}
	if e, found, err := ix.SearchOutcome(t.Context(), "s1", "p2"); !found || err != nil || e.Seq != 10 {
		t.Errorf("the search finds %+v, %v, %v", e, found, err)
	}
}
