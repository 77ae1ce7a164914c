package main

import (
	"bufio"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
)

// script is a reply of a log, and what was streamed of it.
type script struct {
	start, end schemas.Event
	updates    []schemas.Update
}

func at(seq uint64, data schemas.EventData) schemas.Event {
	return schemas.Event{Session: "s1", Seq: seq, Time: time.Unix(int64(seq), 0), Source: "/x", Data: data}
}

// streamed cuts a reply into updates at random places.
func streamed(r *rand.Rand, contents schemas.Contents) script {
	s := script{
		start: at(5, &schemas.MessageStart{MessageID: "m5", Role: schemas.RoleAssistant, Model: "m1"}),
		end: at(6, &schemas.MessageEnd{MessageID: "m5", Message: schemas.AnyMessage{
			Message: &schemas.AssistantMessage{Content: contents, StopReason: schemas.StopStop}}}),
	}
	add := func(e schemas.StreamEvent) {
		s.updates = append(s.updates, schemas.Update{Session: "s1", Event: 5, N: uint64(len(s.updates) + 1),
			Data: &schemas.MessageUpdate{MessageID: "m5", AssistantMessageEvents: []schemas.StreamEvent{e}}})
	}
	add(schemas.StreamEvent{Type: schemas.StreamStart})
	for i, c := range contents {
		var text []rune
		delta := schemas.StreamTextDelta
		switch c := c.(type) {
		case schemas.Text:
			text = []rune(c.Text)
			add(schemas.StreamEvent{Type: schemas.StreamTextStart, ContentIndex: i})
		case schemas.Thinking:
			text, delta = []rune(c.Thinking), schemas.StreamThinkingDelta
			add(schemas.StreamEvent{Type: schemas.StreamThinkingStart, ContentIndex: i})
		case schemas.ToolCall:
			add(schemas.StreamEvent{Type: schemas.StreamToolCallStart, ContentIndex: i})
			add(schemas.StreamEvent{Type: schemas.StreamToolCallEnd, ContentIndex: i, ToolCall: &c})
		}
		for len(text) > 0 {
			n := 1 + r.IntN(len(text))
			add(schemas.StreamEvent{Type: delta, ContentIndex: i, Delta: string(text[:n])})
			text = text[n:]
		}
	}
	return s
}

// shown is what a transcript prints of events and updates.
func shown(t *testing.T, feed func(tr *transcript) error) string {
	t.Helper()
	var b strings.Builder
	a := &app{out: bufio.NewWriter(&b), style: true}
	a.o.events = true
	if err := feed(newTranscript(a)); err != nil {
		t.Fatal(err)
	}
	a.out.Flush()
	return b.String()
}

func (s script) whole(t *testing.T) string {
	return shown(t, func(tr *transcript) error {
		if err := tr.event(s.start); err != nil {
			return err
		}
		return tr.event(s.end)
	})
}

var manyContents = []schemas.Contents{
	{schemas.Text{Text: "Hello,\n\nworld."}},
	{schemas.Thinking{Thinking: "Hm.\nYes."}, schemas.Text{Text: "Answer\r\nwith \x1b[31m and \r and \u202e\r\n\n"}},
	{schemas.Text{Text: "First."}, schemas.ToolCall{ID: "c1", Name: "bash", Arguments: json.RawMessage(`{}`)},
		schemas.Text{Text: "Then."}, schemas.ToolCall{ID: "c2", Name: "ls"}},
	{schemas.Text{Text: ""}, schemas.Thinking{Thinking: "\n\n"}, schemas.Text{Text: "\nlate\n"}},
}

func TestStreamedTextEndsAsTheWholeMessage(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		contents := manyContents[r.IntN(len(manyContents))]
		s := streamed(r, contents)
		got := shown(t, func(tr *transcript) error {
			if err := tr.event(s.start); err != nil {
				return err
			}
			for _, u := range s.updates {
				if err := tr.update(u); err != nil {
					return err
				}
			}
			if tr.live.printed == "" || tr.live.over {
				t.Errorf("seed %d: nothing was shown live", seed)
			}
			return tr.event(s.end)
		})
		if d := cmp.Diff(s.whole(t), got); d != "" {
			t.Fatalf("seed %d: (-whole +streamed):\n%s", seed, d)
		}
	}
}

func TestStreamedTextWithAGapIsShownWholeAtItsEnd(t *testing.T) {
	t.Parallel()
	s := streamed(rand.New(rand.NewPCG(2, 1)), schemas.Contents{schemas.Text{Text: "one two three four"}})
	whole := s.whole(t)
	play := func(updates ...schemas.Update) string {
		return shown(t, func(tr *transcript) error {
			if err := tr.event(s.start); err != nil {
				return err
			}
			for _, u := range updates {
				if err := tr.update(u); err != nil {
					return err
				}
				if !strings.HasPrefix("\n"+whole, tr.live.printed) {
					t.Errorf("shown live: %q", tr.live.printed)
				}
			}
			return tr.event(s.end)
		})
	}
	last := len(s.updates) - 1
	if last < 4 {
		t.Fatalf("only %d updates: choose another seed", last+1)
	}
	for name, got := range map[string]string{
		"none at all":     play(),
		"the first":       play(s.updates[1:]...),
		"one in between":  play(s.updates[0], s.updates[1], s.updates[last]),
		"the last":        play(s.updates[:last]...),
		"out of order":    play(s.updates[1], s.updates[0]),
		"of another one":  play(schemas.Update{Event: 3, N: 1, Data: s.updates[1].Data}),
		"and one too few": play(s.updates[0]),
	} {
		if d := cmp.Diff(whole, got); d != "" {
			t.Errorf("%s (-whole +got):\n%s", name, d)
		}
	}
}

func TestStreamedTextInterrupted(t *testing.T) {
	t.Parallel()
	s := streamed(rand.New(rand.NewPCG(1, 1)), schemas.Contents{schemas.Text{Text: "one two"}})
	got := shown(t, func(tr *transcript) error {
		if err := tr.event(s.start); err != nil {
			return err
		}
		for _, u := range s.updates {
			if err := tr.update(u); err != nil {
				return err
			}
		}
		if err := tr.event(at(6, &schemas.ErrorEvent{Code: "x"})); err != nil {
			return err
		}
		return tr.event(s.end)
	})
	whole := s.whole(t)
	parts := strings.Split(got, "    one two\n")
	if len(parts) != 3 || !strings.Contains(parts[1], "error x\x1b") || !strings.HasSuffix(got, whole) {
		t.Errorf("got:\n%s", got)
	}
}
