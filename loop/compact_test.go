package loop_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// longSession returns a session that was compacted many times, and one with the same context that was not.
type longSession struct {
	t testing.TB
	s *loop.State
	n int

	words  int      // of a summary; 0 is 100
	failed []string // why replies were no summaries
}

func (l *longSession) apply(data schemas.EventData) {
	l.t.Helper()
	l.applyOf(data, "")
}

// applyOf is apply for an event that a command caused.
func (l *longSession) applyOf(data schemas.EventData, command string) {
	l.t.Helper()
	e := l.s.Envelope(data)
	e.Session, e.CausationID, e.Time = "s1", command, time.UnixMilli(int64(e.Seq)).UTC()
	if err := l.s.Apply(e); err != nil {
		l.t.Fatal(err)
	}
}

// run plays a run of one prompt, and the steps that are due after it.
func (l *longSession) run(window int64) {
	l.t.Helper()
	l.n++
	text := fmt.Sprint("prompt ", l.n, strings.Repeat(" word", 100))
	prompt := &schemas.Prompt{Input: schemas.Input{Text: text}}
	raw, _ := schemas.Marshal(prompt)
	for _, data := range loop.Accept(l.s,
		schemas.Command{ID: fmt.Sprintf("01J9ZK3V5Q8R7T6Y5W4X3%05d", l.n), Data: prompt}, raw,
		loop.Rules{}) {
		l.apply(data)
	}
	l.rest(window)
}

// rest carries out steps until the session rests.
func (l *longSession) rest(window int64) {
	l.t.Helper()
	config := &schemas.RunConfig{Model: schemas.ModelRef{ID: "m"}, ContextWindow: window,
		Compaction: schemas.CompactionPolicy{Enabled: true, ReserveTokens: 2000, KeepRecentTokens: 4000}}
	reply := func(text string) *schemas.AssistantMessage {
		return &schemas.AssistantMessage{Content: schemas.Contents{schemas.Text{Text: text}}, StopReason: schemas.StopStop}
	}
	for {
		switch step := loop.Next(l.s).(type) {
		case loop.Emit:
			l.applyOf(step.Data, step.CausationID)
		case loop.StartRun:
			l.apply(&schemas.AgentStart{Config: config, Inputs: []string{step.Inputs[0].CommandID}})
		case loop.CallModel:
			id := l.s.MessageID()
			l.apply(&schemas.MessageStart{MessageID: id, Role: schemas.RoleAssistant})
			m := reply("reply" + strings.Repeat(" word", 100))
			l.apply(&schemas.MessageEnd{MessageID: id, Message: schemas.AnyMessage{Message: m}})
		case loop.StartCompaction:
			l.apply(l.s.CompactionStart(step, *config))
		case loop.Summarize:
			end := l.s.SummaryEnd(reply("summary"+strings.Repeat(" of words", cmp.Or(l.words, 100))), false)
			if end.Error != "" {
				l.failed = append(l.failed, end.Error)
			}
			l.apply(end)
		default:
			return
		}
	}
}

// compactions plays runs until the context was compacted so many times.
func compactions(t testing.TB, times int) *loop.State {
	t.Helper()
	l := &longSession{t: t, s: &loop.State{Session: "s1"}}
	for done, last := 0, ""; done < times; {
		l.run(12_000)
		if first := l.s.Messages[0].ID; first[0] == 'e' && first != last {
			last = first
			done++
		}
	}
	return l.s
}

// A summary that would fill the context again is none. It is requested again, and the session goes on with the context
// that it has until a summary is short enough.
func TestASummaryThatIsTooLongIsRefused(t *testing.T) {
	t.Parallel()
	l := &longSession{t: t, s: &loop.State{Session: "s1"}, words: 6000}
	for len(l.failed) == 0 {
		l.run(12_000)
	}
	if first := l.s.Messages[0].ID; first[0] == 'e' || !strings.Contains(l.failed[0], "too long") {
		t.Errorf("the context begins with %s after %q", first, l.failed)
	}
	l.words = 0
	for l.s.Messages[0].ID[0] != 'e' {
		l.run(12_000)
	}
	if tokens := l.s.ContextTokens(); tokens > 10_000 {
		t.Errorf("the context has %d tokens", tokens)
	}
}

// TestACompactedStateIsAsLargeAsItsContext wants the state of a session to be, after a hundred compactions, within 1.5
// times that of a fresh one with the same context.
func TestACompactedStateIsAsLargeAsItsContext(t *testing.T) {
	t.Parallel()
	old := compactions(t, 100)
	fresh := &longSession{t: t, s: &loop.State{Session: "s1"}}
	fresh.apply(old.Branched())
	fresh.run(1_000_000)
	got, want := len(marshal(t, old)), len(marshal(t, fresh.s))
	t.Logf("%d events, %d runs: %d bytes; fresh %d", old.Seq, old.Runs, got, want)
	if float64(got) > 1.5*float64(want) {
		t.Errorf("the state has %d bytes after a hundred compactions, a fresh one with the same context %d", got, want)
	}
}

func loaded(raw []byte) (*loop.State, error) {
	s := new(loop.State)
	return s, json.Unmarshal(raw, s)
}

func BenchmarkWakingAfterThousandCompactions(b *testing.B) {
	s := compactions(b, 1000)
	raw, err := schemas.Marshal(s)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := loaded(raw); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCompaction measures a compaction without its model call.
func BenchmarkCompaction(b *testing.B) {
	l := &longSession{t: b, s: &loop.State{Session: "s1"}}
	for range 300 {
		l.run(1_000_000)
	}
	config := l.s.Config
	config.Compaction.KeepRecentTokens = 20_000
	for b.Loop() {
		copied := *l.s
		one := &longSession{t: b, s: &copied}
		one.apply(copied.CompactionStart(loop.StartCompaction{Reason: schemas.CompactThreshold}, config))
		for {
			if _, more := copied.SummaryRequest(); !more {
				break
			}
			one.apply(copied.SummaryEnd(&schemas.AssistantMessage{StopReason: schemas.StopStop,
				Content: schemas.Contents{schemas.Text{Text: "summary"}}}, false))
		}
		one.apply(loop.Next(&copied).(loop.Emit).Data)
	}
}
