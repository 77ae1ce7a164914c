package integration_test

import (
	"context"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

// until follows a session's log from its first event and returns it up to the first event for which last holds.
func (s *system) until(t *testing.T, session, what string, last func(schemas.Event) bool) []schemas.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	var log []schemas.Event
	for e, err := range s.store.Follow(ctx, session, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if log = append(log, e); last(e) {
			return log
		}
	}
	t.Fatalf("session %s: never saw %s, the log is %v", session, what, typesOf(log))
	return nil
}

// ends holds for the nth agent_end that it sees.
func ends(n int) func(schemas.Event) bool {
	return func(e schemas.Event) bool {
		if e.Type() == schemas.EventAgentEnd {
			n--
		}
		return n == 0
	}
}

// prompted sends a prompt to a session without a run under way and returns the log up to the end of its run.
func (s *system) prompted(t *testing.T, session, text string, runs int) []schemas.Event {
	t.Helper()
	s.send(t, session, schemas.CommandPrompt, text)
	return s.until(t, session, "the end of the run", ends(runs))
}

// logOf is what is stored of a session.
func (s *system) logOf(t *testing.T, session string) (log []schemas.Event) {
	t.Helper()
	for e, err := range s.store.Read(t.Context(), session, 1) {
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, e)
	}
	return log
}

func typesOf(log []schemas.Event) []schemas.EventType {
	types := make([]schemas.EventType, len(log))
	for i, e := range log {
		types[i] = e.Type()
	}
	return types
}

// dataOf returns the payloads of one type, in the order of the log.
func dataOf[T schemas.EventData](log []schemas.Event) (all []T) {
	for _, e := range log {
		if d, ok := e.Data.(T); ok {
			all = append(all, d)
		}
	}
	return all
}

// said is what the users said, in the order of the transcript.
func said(log []schemas.Event) (texts []string) {
	for _, d := range dataOf[*schemas.MessageEnd](log) {
		if m, ok := d.Message.Message.(*schemas.UserMessage); ok {
			texts = append(texts, m.Content.JoinText())
		}
	}
	return texts
}

// replied is what the model said in replies that are part of the transcript.
func replied(log []schemas.Event) (texts []string) {
	for _, d := range dataOf[*schemas.MessageEnd](log) {
		if m, ok := d.Message.Message.(*schemas.AssistantMessage); ok && !d.Interrupted {
			texts = append(texts, m.Content.JoinText())
		}
	}
	return texts
}

// reasons are why the runs ended.
func reasons(log []schemas.Event) (all []schemas.TerminationReason) {
	for _, d := range dataOf[*schemas.AgentEnd](log) {
		all = append(all, d.TerminationReason)
	}
	return all
}
