package inbox_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/schemas"
)

// partitioned waits until every partition has one reader, and returns how many each runner reads.
func partitioned(t testing.TB, inboxes ...*inbox.Inbox) []int {
	t.Helper()
	var shares []int
	bustest.Eventually(t, "every partition has one reader", func() bool {
		shares = shares[:0]
		var all []int
		for _, in := range inboxes {
			mine := in.Partitions()
			shares = append(shares, len(mine))
			all = append(all, mine...)
		}
		slices.Sort(all)
		return len(all) == bustest.SmallPartitions && len(slices.Compact(all)) == bustest.SmallPartitions
	})
	return shares
}

// ledger is what all runners of a test took, as a log would: a command that comes again counts once.
type ledger struct {
	mu    sync.Mutex
	seen  map[string]bool
	order map[string][]string // texts by session
	by    map[string]int      // commands by runner
}

func newLedger() *ledger {
	return &ledger{seen: map[string]bool{}, order: map[string][]string{}, by: map[string]int{}}
}

func (l *ledger) take(runner string, cmd schemas.Command) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if key := cmd.Session + "/" + cmd.ID; !l.seen[key] {
		l.seen[key] = true
		l.order[cmd.Session] = append(l.order[cmd.Session], textOf(cmd))
		l.by[runner]++
	}
}

func (l *ledger) taken() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seen)
}

func (l *ledger) took(session string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.order[session])
}

func (l *ledger) byRunner(id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.by[id]
}

// handler is a runner that takes commands into the ledger.
func (l *ledger) handler(runner string) *fakeHandler {
	return &fakeHandler{deliver: func(_ context.Context, cmd schemas.Command, entered func()) error {
		l.take(runner, cmd)
		entered()
		return nil
	}}
}

// load sends numbered prompts to many sessions until stop, and returns how many each got. It leaves the machine some
// air: what is measured is order, not speed.
func load(t testing.TB, c *bus.Conn, sessions int) (stop func() (each int)) {
	quit, done := make(chan struct{}), make(chan int)
	ctx := bustest.Deadline(t)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-quit:
				done <- n
				return
			case <-tick.C:
			}
			for s := range sessions {
				subject := c.Subjects().Command(fmt.Sprintf("s%d", s), schemas.CommandPrompt)
				if _, err := c.JetStream().Publish(ctx, subject, fmt.Appendf(nil, "%06d", n)); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	return func() int { close(quit); return <-done }
}

// check waits until everything is taken and checks it against what was sent.
func (l *ledger) check(t testing.TB, c *bus.Conn, sessions, each int) {
	t.Helper()
	bustest.Eventually(t, "the queue is empty", func() bool { return bustest.Queued(t, c) == 0 })
	var want []string
	for n := range each {
		want = append(want, fmt.Sprintf("%06d", n))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range sessions {
		if got := l.order[fmt.Sprintf("s%d", s)]; !slices.Equal(got, want) {
			t.Errorf("session s%d: %d commands taken, %d sent, or not in order: %s", s, len(got), each, firstDisorder(got))
		}
	}
}

func firstDisorder(got []string) string {
	for i := 1; i < len(got); i++ {
		if got[i] <= got[i-1] {
			return fmt.Sprintf("%s after %s", got[i], got[i-1])
		}
	}
	return "in order"
}

func TestRunnersShareThePartitionsAsTheyComeAndGo(t *testing.T) {
	t.Parallel()
	s, c := bustest.Small(t)
	l := newLedger()
	const sessions = 40
	stopLoad := load(t, c, sessions)
	a, _ := bustest.RunInbox(t, bustest.Connect(t, s), bustest.Fast("a"), l.handler("a"))
	if got := partitioned(t, a); got[0] != bustest.SmallPartitions {
		t.Errorf("a runner alone reads %v", got)
	}
	b, stopB := bustest.RunInbox(t, bustest.Connect(t, s), bustest.Fast("b"), l.handler("b"))
	d, _ := bustest.RunInbox(t, bustest.Connect(t, s), bustest.Fast("d"), l.handler("d"))
	bustest.Eventually(t, "nobody reads more than five quarters of 16/3", func() bool {
		shares := partitioned(t, a, b, d)
		return slices.Max(shares) <= 7 && slices.Min(shares) > 0
	})
	bustest.Eventually(t, "all three work", func() bool {
		return l.byRunner("a") > 0 && l.byRunner("b") > 0 && l.byRunner("d") > 0
	})
	if err := stopB(); err != nil {
		t.Error(err)
	}
	partitioned(t, a, d)
	l.check(t, c, sessions, stopLoad())
}

// What a runner that stops leaves behind goes on elsewhere without waiting for a timeout, which here are so long that
// the test would fail.
func TestRunnerThatStopsHandsOverAtOnce(t *testing.T) {
	t.Parallel()
	s, c := bustest.Small(t)
	slow := func(id string) inbox.Options {
		return inbox.Options{RunnerID: id, Takeover: time.Minute, HandoverWait: time.Millisecond}
	}
	l := newLedger()
	handOver := make(chan struct{})
	awake := &fakeHandler{deliver: func(ctx context.Context, cmd schemas.Command, entered func()) error {
		entered()
		select {
		case <-handOver: // the driver stops at the next step
		case <-ctx.Done(): // or another runner reads the partition
		}
		return fmt.Errorf("handed over: %w", context.Canceled)
	}}
	_, stopA := bustest.RunInbox(t, bustest.Connect(t, s), slow("a"), awake)
	const sessions = 40
	for i := range sessions {
		bustest.Send(t, c, fmt.Sprintf("s%d", i), "000000")
	}
	bustest.Eventually(t, "all sessions are awake", func() bool { return awake.total() == sessions })
	b, _ := bustest.RunInbox(t, bustest.Connect(t, s), slow("b"), l.handler("b"))
	start := time.Now()
	close(handOver)
	stopped := make(chan error, 1)
	go func() { stopped <- stopA() }()
	bustest.Eventually(t, "the other takes everything", func() bool { return l.taken() == sessions })
	for i := range sessions {
		bustest.Send(t, c, fmt.Sprintf("s%d", i), "000001")
	}
	l.check(t, c, sessions, 2)
	if d := time.Since(start); d > slow("").Takeover/4 { // the silence of a runner would be noticed much later
		t.Errorf("the hand-over took %s", d)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if got := partitioned(t, b); got[0] != bustest.SmallPartitions {
		t.Errorf("the other reads %v", got)
	}
}

// A runner whose connection is cut says goodbye to nobody; the others notice by its timeouts.
func TestOthersTakeOverFromARunnerThatIsCutOff(t *testing.T) {
	t.Parallel()
	s, c := bustest.Small(t)
	l := newLedger()
	cut := make(chan struct{})
	connA := bustest.Connect(t, s)
	stuck := &fakeHandler{deliver: func(ctx context.Context, cmd schemas.Command, entered func()) error {
		entered()
		<-cut
		return nil // too late for anybody to hear
	}}
	o := bustest.Fast("a")
	o.StopTimeout = time.Millisecond
	in, err := inbox.New(connA, o)
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- in.Run(context.Background(), stuck) }()
	<-in.Ready()
	const sessions = 20
	for i := range sessions {
		bustest.Send(t, c, fmt.Sprintf("s%d", i), "000000")
	}
	bustest.Eventually(t, "all sessions are awake", func() bool { return stuck.total() == sessions })
	b, _ := bustest.RunInbox(t, bustest.Connect(t, s), bustest.Fast("b"), l.handler("b"))
	start := time.Now()
	connA.NATS().Close()
	for i := range sessions {
		bustest.Send(t, c, fmt.Sprintf("s%d", i), "000001")
	}
	if got := partitioned(t, b); got[0] != bustest.SmallPartitions {
		t.Errorf("the other reads %v", got)
	}
	bustest.Eventually(t, "the other takes everything", func() bool { return l.taken() == 2*sessions })
	t.Logf("taken over after %s", time.Since(start))
	if d := time.Since(start); d > 6*time.Second {
		t.Errorf("the take-over took %s", d)
	}
	close(cut)
	select {
	case err := <-ran:
		if err == nil {
			t.Error("an inbox without a connection ended well")
		}
	case <-time.After(10 * time.Second):
		t.Error("an inbox without a connection does not end")
	}
}

// A partition whose sessions are awake stays where it is until they are at rest, within bounds.
func TestAwakeSessionsAreNotDisturbedByANewcomer(t *testing.T) {
	t.Parallel()
	s, c := bustest.Small(t)
	rest := make(chan struct{})
	awake := &fakeHandler{deliver: func(_ context.Context, _ schemas.Command, entered func()) error {
		entered()
		<-rest
		return nil
	}}
	o := bustest.Fast("a")
	o.HandoverWait = time.Minute
	a, _ := bustest.RunInbox(t, bustest.Connect(t, s), o, awake)
	const sessions = 100 // so that every partition has one that is awake
	for i := range sessions {
		bustest.Send(t, c, fmt.Sprintf("s%d", i), "wake")
	}
	bustest.Eventually(t, "all are awake", func() bool { return awake.total() == sessions })
	l := newLedger()
	b, _ := bustest.RunInbox(t, bustest.Connect(t, s), bustest.Fast("b"), l.handler("b"))
	for i := range sessions {
		bustest.Send(t, c, fmt.Sprintf("s%d", i), "steer")
	}
	bustest.Eventually(t, "the steers reach the runner that drives", func() bool { return awake.total() == 2*sessions })
	if len(a.Partitions()) != bustest.SmallPartitions || l.taken() != 0 {
		t.Errorf("%d partitions left early, %d commands went elsewhere", bustest.SmallPartitions-len(a.Partitions()),
			l.taken())
	}
	close(rest)
	bustest.Eventually(t, "the newcomer has its share", func() bool { return len(b.Partitions()) > 0 })
	partitioned(t, a, b)
	for i := range sessions {
		bustest.Send(t, c, fmt.Sprintf("s%d", i), "000000")
	}
	bustest.Eventually(t, "the newcomer works", func() bool { return l.taken() > 0 && bustest.Queued(t, c) == 0 })
}
