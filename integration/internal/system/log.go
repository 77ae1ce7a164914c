package system

import (
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// Ends returns a function that returns true for the nth agent_end.
func Ends(n int) func(schemas.Event) bool { return bustest.Nth(n, schemas.EventAgentEnd) }

// TypesOf returns the types of a log's events.
func TypesOf(log []schemas.Event) []schemas.EventType { return bustest.Types(log) }

// DataOf returns the payloads of one type, in the order of the log.
func DataOf[T schemas.EventData](log []schemas.Event) (all []T) {
	for _, e := range log {
		if d, ok := e.Data.(T); ok {
			all = append(all, d)
		}
	}
	return all
}

// Said returns the user messages, in the order of the transcript.
func Said(log []schemas.Event) (texts []string) {
	for _, d := range DataOf[*schemas.MessageEnd](log) {
		if m, ok := d.Message.Message.(*schemas.UserMessage); ok {
			texts = append(texts, m.Content.JoinText())
		}
	}
	return texts
}

// Replied returns the replies of the model that are part of the transcript.
func Replied(log []schemas.Event) (texts []string) {
	for _, d := range DataOf[*schemas.MessageEnd](log) {
		if m, ok := d.Message.Message.(*schemas.AssistantMessage); ok && !d.Interrupted {
			texts = append(texts, m.Content.JoinText())
		}
	}
	return texts
}

// Reasons returns the termination reasons of the runs.
func Reasons(log []schemas.Event) (all []schemas.TerminationReason) {
	for _, d := range DataOf[*schemas.AgentEnd](log) {
		all = append(all, d.TerminationReason)
	}
	return all
}
