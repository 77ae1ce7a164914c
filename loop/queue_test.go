package loop_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// queueing is a session with a run under way that gets inputs.
type queueing struct {
	t   *testing.T
	s   *loop.State
	log []schemas.Event
}

func newQueueing(t *testing.T) *queueing {
	q := &queueing{t: t, s: &loop.State{Session: "s1"}}
	q.append("", &schemas.AgentStart{Config: &schemas.RunConfig{}})
	return q
}

func (q *queueing) append(cause string, events ...schemas.EventData) {
	q.t.Helper()
	for _, data := range events {
		e := q.s.Envelope(data)
		e.Time, e.CausationID = time.Unix(1, 0), cause
		if err := q.s.Apply(e); err != nil {
			q.t.Fatal(err)
		}
		q.log = append(q.log, e)
	}
}

// replayed returns the session as another process has it: folded from the stored log.
func (q *queueing) replayed() *loop.State {
	q.t.Helper()
	s := &loop.State{Session: "s1"}
	for _, e := range q.log {
		raw, err := schemas.Marshal(e.Data)
		if err != nil {
			q.t.Fatal(err)
		}
		if e.Data, err = schemas.DecodeEventData(e.Data.EventType(), raw); err != nil {
			q.t.Fatal(err)
		}
		if err := s.Apply(e); err != nil {
			q.t.Fatal(err)
		}
	}
	return s
}

// send has a command accepted. It returns the code of a rejection.
func (q *queueing) send(id string, data schemas.CommandData) schemas.RejectCode {
	q.t.Helper()
	events := q.decide(q.s, id, data)
	q.append(id, events...)
	return codeOf(events)
}

func (q *queueing) decide(s *loop.State, id string, data schemas.CommandData) []schemas.EventData {
	q.t.Helper()
	raw, err := schemas.Marshal(data)
	if err != nil {
		q.t.Fatal(err)
	}
	return loop.Accept(s, schemas.Command{Session: "s1", ID: id, Data: data}, raw, loop.Rules{})
}

func codeOf(events []schemas.EventData) schemas.RejectCode {
	if r, ok := events[0].(*schemas.CommandRejected); ok {
		return r.Code
	}
	return ""
}

func megabytes(n int) schemas.Input { return schemas.Input{Text: strings.Repeat("x", n<<20)} }

// The queues of a session are bounded in bytes together, whatever the inputs consist of.
func TestQueuesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	q := newQueueing(t)
	image := schemas.Input{Images: []schemas.Image{{Data: strings.Repeat("A", 8<<20), MimeType: "image/png"}}}
	blocks := make(schemas.Contents, (8<<20)/64)
	for i := range blocks {
		blocks[i] = schemas.Text{}
	}
	empty := schemas.Input{Messages: schemas.Messages{&schemas.UserMessage{Content: blocks}}}
	raw := []byte(`{"role":"note","text":"` + strings.Repeat("x", 7<<20) + `"}`)
	note := schemas.Input{Messages: schemas.Messages{&schemas.CustomMessage{Role: "note", Raw: raw}}}
	for _, c := range []struct {
		id   string
		data schemas.CommandData
		want schemas.RejectCode
	}{
		{"a steer of 8 MiB", &schemas.Steer{Input: image}, ""},
		{"a follow-up of empty blocks", &schemas.FollowUp{Input: empty}, ""},
		{"a prompt of a role of its own", &schemas.Prompt{Input: note}, ""},
		{"one that would be too much", &schemas.FollowUp{Input: megabytes(10)}, schemas.RejectQueueFull},
		{"one that would be too much, steering", &schemas.Prompt{Input: megabytes(10), WhenBusy: schemas.BusySteer},
			schemas.RejectQueueFull},
		{"a smaller one", &schemas.Steer{Input: megabytes(8)}, ""},
		{"a small one", &schemas.Steer{Input: megabytes(1)}, schemas.RejectQueueFull},
		{"one that takes the place of the prompts", &schemas.Prompt{Input: megabytes(8),
			WhenBusy: schemas.BusyInterrupt}, ""},
		{"the next of these", &schemas.Prompt{Input: megabytes(8), WhenBusy: schemas.BusyInterrupt}, ""},
		{"behind them", &schemas.Prompt{Input: megabytes(1)}, schemas.RejectQueueFull},
		{"room again", &schemas.ClearQueue{Queue: string(schemas.QueueSteering)}, ""},
		{"and taken", &schemas.Steer{Input: megabytes(8)}, ""},
	} {
		if got := q.send(c.id, c.data); got != c.want {
			t.Errorf("%s: refused with %q, want %q", c.id, got, c.want)
		}
	}
	if n := len(q.s.Prompts); n != 1 {
		t.Errorf("%d prompts wait, want the last that interrupts", n)
	}
	s := q.replayed()
	for size, want := range map[int]schemas.RejectCode{1: "", 9: schemas.RejectQueueFull} {
		steer := &schemas.Steer{Input: megabytes(size)}
		if got := codeOf(q.decide(s, "next", steer)); got != want || codeOf(q.decide(q.s, "next", steer)) != got {
			t.Errorf("%d MiB more are refused with %q after a replay, want %q", size, got, want)
		}
	}
	if raw, err := schemas.Marshal(q.s); err != nil || len(raw) > loop.MaxQueuedBytes+16<<20 {
		t.Errorf("a snapshot has %d bytes: %v", len(raw), err)
	}
}

// One input may wait whatever its size: the limit is for inputs that pile up.
func TestAnEmptyQueueTakesAnyInput(t *testing.T) {
	t.Parallel()
	q := newQueueing(t)
	if got := q.send("p1", &schemas.Steer{Input: megabytes(loop.MaxQueuedBytes>>20 + 1)}); got != "" {
		t.Errorf("refused with %q", got)
	}
	if got := q.send("p2", &schemas.Steer{}); got != schemas.RejectQueueFull {
		t.Errorf("a second one: %q", got)
	}
}

// withContext is a session whose context has n messages of a megabyte: of runs that have failed, for example.
func withContext(t *testing.T, n int) *queueing {
	q := &queueing{t: t, s: &loop.State{Session: "s1"}}
	said := schemas.AnyMessage{Message: megabytes(1).AsMessages(time.Time{})[0]}
	for i := range n {
		q.s.Messages = append(q.s.Messages, loop.Entry{ID: fmt.Sprintf("b1.%d", i), Message: said})
	}
	return q
}

// Inputs that the context has no room for are refused, also those that interrupt a run.
func TestContextIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	const most = loop.MaxContextBytes >> 20
	q := withContext(t, most-2)
	if got := q.send("fits", &schemas.Prompt{Input: megabytes(1)}); got != "" {
		t.Errorf("a prompt that there is room for is refused with %q", got)
	}
	for id, data := range map[string]schemas.CommandData{
		"prompt": &schemas.Prompt{Input: megabytes(1)}, "steer": &schemas.Steer{Input: megabytes(1)},
		"follow-up": &schemas.FollowUp{Input: megabytes(1)},
		"message":   &schemas.AddMessage{Content: schemas.Contents{schemas.Text{Text: megabytes(2).Text}}},
	} {
		if got := q.send(id, data); got != schemas.RejectState {
			t.Errorf("a %s that there is no room for is refused with %q", id, got)
		}
	}
	q.append("", &schemas.AgentStart{Config: &schemas.RunConfig{}, Inputs: []string{"fits"}})
	interrupt := &schemas.Prompt{Input: megabytes(1), WhenBusy: schemas.BusyInterrupt}
	if got := q.send("interrupt", interrupt); got != schemas.RejectState {
		t.Errorf("an interrupting prompt is refused with %q", got)
	}
	if got := q.send("small", &schemas.Steer{Input: schemas.Input{Text: "x"}}); got != "" {
		t.Errorf("a small steer is refused with %q", got)
	}
	first := schemas.Command{Session: "s1", ID: "first", Data: &schemas.Prompt{Input: megabytes(most + 1)}}
	if got := codeOf(loop.Accept(withContext(t, 0).s, first, nil, loop.Rules{})); got != "" {
		t.Errorf("an input of an empty session is refused with %q", got)
	}
}

// A context that results of tools have made too large is not sent to a model: the run fails.
func TestContextThatIsTooLargeIsNotSent(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]bool{loop.MaxContextBytes>>20 - 1: false, loop.MaxContextBytes >> 20: true} {
		q := withContext(t, n)
		q.append("", &schemas.AgentStart{Config: &schemas.RunConfig{}}, &schemas.TurnStart{})
		step, ok := loop.Next(q.s).(loop.CallModel)
		if refused := strings.Contains(step.Unready, "The context has"); !ok || refused != want {
			t.Errorf("with %d MiB the next step is %#v", n, loop.Next(q.s))
		}
	}
}

// Results count before they are in the transcript. One that the context has no room for is left out.
func TestResultsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	q := withContext(t, loop.MaxContextBytes>>20-4)
	text := schemas.TextResult(megabytes(2).Text)
	before := q.s.Bytes()
	q.s.Run = &loop.Run{Turn: &loop.Turn{Calls: []loop.Call{{End: &schemas.ToolExecutionEnd{Result: text}}, {}}}}
	if n := q.s.Bytes() - before; n < 2<<20 {
		t.Errorf("a result takes %d bytes", n)
	}
	args := json.RawMessage(`"` + megabytes(1).Text + `"`)
	before = q.s.Bytes()
	q.s.Run.Turn.Calls[1] = loop.Call{ToolCall: schemas.ToolCall{Arguments: args}, Approval: &loop.Approval{Args: args}}
	if n := q.s.Bytes() - before; n < 2<<20 {
		t.Errorf("a call that waits takes %d bytes", n)
	}
	if why := q.s.TooLarge(schemas.TextResult(megabytes(1).Text)); why != "" {
		t.Errorf("a result that there is room for: %s", why)
	}
	if why := q.s.TooLarge(text); !strings.Contains(why, "left out") {
		t.Errorf("a result that there is no room for: %q", why)
	}
}
