package admission_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/inbox/admission"
)

// rig is a gate with its own clock.
type rig struct {
	*admission.Gate
	now      time.Time
	started  []string
	requests map[string]*admission.Request
	armed    int
}

func newRig(maxSessions int) *rig {
	r := &rig{now: time.Unix(1, 0), requests: map[string]*admission.Request{}}
	r.Gate = admission.New(maxSessions, func(time.Duration) { r.armed++ })
	return r
}

func (r *rig) request(urgent bool, sessions ...string) {
	for _, s := range sessions {
		t := r.Request(s, urgent, r.now, func() { r.started = append(r.started, s) })
		if r.requests[s] == nil {
			r.requests[s] = t
		}
	}
}

func (r *rig) entered(sessions ...string) {
	for _, s := range sessions {
		r.Entered(r.requests[s], r.now)
	}
}

func (r *rig) done(session string) { r.Done(r.requests[session], r.now) }

func (r *rig) tick() {
	r.now = r.now.Add(admission.Patience)
	r.Tick(r.now)
}

func (r *rig) want(t *testing.T, what string, sessions ...string) {
	t.Helper()
	if d := cmp.Diff(sessions, r.started); d != "" {
		t.Errorf("%s: started (-want +got):\n%s", what, d)
	}
	r.started = nil
}

func TestOldestAndNewestStartInTurn(t *testing.T) {
	t.Parallel()
	r := newRig(2)
	r.request(false, "a", "b", "c", "d", "e", "f")
	r.want(t, "two places", "a", "b")
	r.done("a")
	r.done("b")
	r.want(t, "two more", "c", "f") // the turn has gone round with a and b
	r.request(false, "g")
	r.done("c")
	r.done("f")
	r.want(t, "two more", "d", "g")
	r.done("d")
	r.done("g")
	r.want(t, "the last", "e")
}

func TestUrgentMessagesStartFirst(t *testing.T) {
	t.Parallel()
	r := newRig(2)
	r.request(false, "a", "b", "c", "d")
	r.request(true, "result", "approval", "abort")
	r.want(t, "twice as many places", "a", "b", "result", "approval")
	r.done("a")
	r.want(t, "a place", "abort")
	r.done("b")
	r.want(t, "no place: two beyond the bound are at work")
	r.done("result")
	r.done("approval")
	r.want(t, "a place for the rest", "c")
}

func TestSessionAtWorkDoesNotWait(t *testing.T) {
	t.Parallel()
	r := newRig(1)
	r.request(false, "a", "b")
	r.request(false, "a")
	r.want(t, "the second of a", "a", "a")
}

// Patience admits at most half as many sessions beyond the bound. Urgent messages have their own room.
func TestNewestStartsAfterPatience(t *testing.T) {
	t.Parallel()
	r := newRig(4)
	r.request(false, "a", "b", "c", "d", "e", "f", "g", "h")
	r.want(t, "four places", "a", "b", "c", "d")
	if r.armed != 1 {
		t.Errorf("armed %d times", r.armed)
	}
	r.tick()
	r.want(t, "the newest", "h")
	r.Tick(r.now)
	r.want(t, "not again at once")
	r.request(false, "late")
	r.tick()
	r.want(t, "the newest", "late")
	r.tick()
	r.want(t, "six are at work")
	r.request(true, "result")
	r.want(t, "the urgent one", "result")
}

// After Patience an urgent message starts although all places are taken, by messages that were urgent themselves.
func TestUrgentMessagesHaveAReserve(t *testing.T) {
	t.Parallel()
	r := newRig(2)
	r.request(true, "a", "b", "c", "d", "e", "f", "g")
	r.want(t, "twice as many places", "a", "b", "c", "d")
	r.request(true, "late")
	r.tick()
	r.want(t, "the newest", "late")
	r.tick()
	r.tick()
	r.want(t, "at most three times as many", "g")
}

// At most MaxStarting sessions start at once. When the message of one is stored, the next session starts.
func TestStartingSessionsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(1000)
	var all []string
	for i := range admission.MaxStarting + 2 {
		all = append(all, fmt.Sprint(i))
	}
	r.request(false, all...)
	r.want(t, "at once", all[:admission.MaxStarting]...)
	r.entered("0", "0")
	if len(r.started) != 1 {
		t.Errorf("entered twice, started %v", r.started)
	}
	r.started = nil
	r.done("0")
	r.done("1")
	if len(r.started) != 1 || r.Waiting() != 0 || r.Working() != admission.MaxStarting {
		t.Errorf("started %v, %d wait, %d work", r.started, r.Waiting(), r.Working())
	}
}

// A session that waits for its next attempt frees its place, and takes only one when it resumes.
func TestPausedMessageFreesItsPlace(t *testing.T) {
	t.Parallel()
	r := newRig(1)
	r.request(false, "a", "b", "c")
	r.Pause(r.requests["a"], r.now)
	r.want(t, "in place of a", "a", "c")
	r.Resume(r.requests["a"])
	r.Resume(r.requests["a"])
	r.done("a")
	r.want(t, "c is at work")
	r.done("c")
	r.want(t, "in place of c", "b")
	r.done("b")
	r.done("b")
	if r.Working() != 0 {
		t.Errorf("%d at work", r.Working())
	}
}

func TestDoneRemovesWaitingMessage(t *testing.T) {
	t.Parallel()
	r := newRig(1)
	r.request(false, "a", "b", "c")
	r.done("c")
	r.done("a")
	r.want(t, "c was removed", "a", "b")
	if r.Waiting() != 0 {
		t.Error("c waits")
	}
}

// A session that arrives right after a burst waits for one start, and later arrivals do not starve the first sessions
// of the burst.
func TestBurstDelaysNewcomerByOneStart(t *testing.T) {
	t.Parallel()
	r := newRig(10)
	var burst []string
	for i := range 5000 {
		burst = append(burst, fmt.Sprint("burst-", i))
	}
	r.request(false, burst...)
	r.request(false, "newcomer")
	r.done("burst-0")
	r.done("burst-1")
	if at := slices.Index(r.started, "newcomer"); at < 0 || at > 11 {
		t.Errorf("the newcomer starts as number %d", at)
	}
	for i := range 10_000 { // others arrive as fast as sessions end
		r.request(false, fmt.Sprint("other-", i))
		r.done(r.started[i+2])
	}
	for _, s := range burst {
		if !slices.Contains(r.started, s) {
			t.Fatalf("%s is starved", s)
		}
	}
}
