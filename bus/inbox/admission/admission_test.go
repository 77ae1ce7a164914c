package admission_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/inbox/admission"
)

// rig is a gate with a clock of its own.
type rig struct {
	*admission.Gate
	now     time.Time
	begun   []string
	request map[string]*admission.Request
	armed   int
}

func newRig(most int) *rig {
	r := &rig{now: time.Unix(1, 0), request: map[string]*admission.Request{}}
	r.Gate = admission.New(most, func(time.Duration) { r.armed++ })
	return r
}

func (r *rig) ask(pressing bool, sessions ...string) {
	for _, s := range sessions {
		t := r.Ask(s, pressing, r.now, func() { r.begun = append(r.begun, s) })
		if r.request[s] == nil {
			r.request[s] = t
		}
	}
}

func (r *rig) entered(sessions ...string) {
	for _, s := range sessions {
		r.Entered(r.request[s], r.now)
	}
}

func (r *rig) done(session string) { r.Done(r.request[session], r.now) }

func (r *rig) hurry() {
	r.now = r.now.Add(admission.Patience)
	r.Hurry(r.now)
}

func (r *rig) want(t *testing.T, what string, sessions ...string) {
	t.Helper()
	if d := cmp.Diff(sessions, r.begun); d != "" {
		t.Errorf("%s: begun (-want +got):\n%s", what, d)
	}
	r.begun = nil
}

func TestTheOldestAndTheNewestInTurn(t *testing.T) {
	t.Parallel()
	r := newRig(2)
	r.ask(false, "a", "b", "c", "d", "e", "f")
	r.want(t, "two places", "a", "b")
	r.done("a")
	r.done("b")
	r.want(t, "two more", "c", "f") // the turn has gone round with a and b
	r.ask(false, "g")
	r.done("c")
	r.done("f")
	r.want(t, "two more", "d", "g")
	r.done("d")
	r.done("g")
	r.want(t, "the last", "e")
}

func TestWhatPressesGoesFirst(t *testing.T) {
	t.Parallel()
	r := newRig(2)
	r.ask(false, "a", "b", "c", "d")
	r.ask(true, "result", "approval", "abort")
	r.want(t, "twice as many places", "a", "b", "result", "approval")
	r.done("a")
	r.want(t, "a place", "abort")
	r.done("b")
	r.want(t, "no place: two beyond the bound are at work")
	r.done("result")
	r.done("approval")
	r.want(t, "a place for the others", "c")
}

func TestASessionAtWorkIsNotKeptWaiting(t *testing.T) {
	t.Parallel()
	r := newRig(1)
	r.ask(false, "a", "b")
	r.ask(false, "a")
	r.want(t, "the second of a", "a", "a")
}

// Nobody is let in by the passing of time alone beyond half as many, and what presses has room of its own.
func TestImpatience(t *testing.T) {
	t.Parallel()
	r := newRig(4)
	r.ask(false, "a", "b", "c", "d", "e", "f", "g", "h")
	r.want(t, "four places", "a", "b", "c", "d")
	if r.armed != 1 {
		t.Errorf("armed %d times", r.armed)
	}
	r.hurry()
	r.want(t, "the newest", "h")
	r.Hurry(r.now)
	r.want(t, "not again at once")
	r.ask(false, "late")
	r.hurry()
	r.want(t, "the newest", "late")
	r.hurry()
	r.want(t, "six are at work")
	r.ask(true, "result")
	r.want(t, "what presses", "result")
}

// So many are brought in at once; when one is in, the next begins.
func TestTheBeginningsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(1000)
	var all []string
	for i := range admission.MostBeginning + 2 {
		all = append(all, fmt.Sprint(i))
	}
	r.ask(false, all...)
	r.want(t, "at once", all[:admission.MostBeginning]...)
	r.entered("0", "0")
	if len(r.begun) != 1 {
		t.Errorf("entered twice, begun %v", r.begun)
	}
	r.begun = nil
	r.done("0")
	r.done("1")
	if len(r.begun) != 1 || r.Waiting() != 0 || r.Working() != admission.MostBeginning {
		t.Errorf("begun %v, %d wait, %d work", r.begun, r.Waiting(), r.Working())
	}
}

// Sessions that fail give their places away while they wait to be tried again, and take none twice.
func TestPauses(t *testing.T) {
	t.Parallel()
	r := newRig(1)
	r.ask(false, "a", "b", "c")
	r.Pause(r.request["a"], r.now)
	r.want(t, "in place of a", "a", "c")
	r.Resume(r.request["a"])
	r.Resume(r.request["a"])
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

func TestWhatIsTakenOutOfTheLine(t *testing.T) {
	t.Parallel()
	r := newRig(1)
	r.ask(false, "a", "b", "c")
	r.done("c")
	r.done("a")
	r.want(t, "c is out of the line", "a", "b")
	if r.request["c"].Waits() || r.Waiting() != 0 {
		t.Error("c waits")
	}
}

// Whoever comes right after a burst waits for one beginning, and the first of the burst are not starved by those who
// come after them.
func TestABurst(t *testing.T) {
	t.Parallel()
	r := newRig(10)
	var burst []string
	for i := range 5000 {
		burst = append(burst, fmt.Sprint("burst-", i))
	}
	r.ask(false, burst...)
	r.ask(false, "newcomer")
	r.done("burst-0")
	r.done("burst-1")
	if at := slices.Index(r.begun, "newcomer"); at < 0 || at > 11 {
		t.Errorf("the newcomer begins as number %d", at)
	}
	for i := range 10_000 { // others come as fast as sessions end
		r.ask(false, fmt.Sprint("other-", i))
		r.done(r.begun[i+2])
	}
	for _, s := range burst {
		if !slices.Contains(r.begun, s) {
			t.Fatalf("%s is starved", s)
		}
	}
}
