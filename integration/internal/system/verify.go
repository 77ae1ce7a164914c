package system

import (
	"iter"
	"testing"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// LogOf returns the log of a session.
func LogOf(tb testing.TB, store *eventstore.Store, session string) (log []schemas.Event) {
	tb.Helper()
	for e, err := range store.Read(tb.Context(), session, 1) {
		if err != nil {
			tb.Fatal(err)
		}
		log = append(log, e)
	}
	return log
}

// LogOf returns the log of a session.
func (s *System) LogOf(tb testing.TB, session string) []schemas.Event {
	tb.Helper()
	return LogOf(tb, s.Store, session)
}

// Verify fails the test if a session's log or its snapshot is not valid.
func Verify(tb testing.TB, store *eventstore.Store, session string) eventstore.Report {
	tb.Helper()
	var report eventstore.Report
	// A cluster that elects leaders may not answer.
	Eventually(tb, "session "+session+" is verified", func() bool {
		var err error
		report, err = store.Verify(tb.Context(), session,
			eventstore.VerifyOptions{Version: loop.FoldVersion, Refold: refold(session)})
		if err != nil {
			tb.Logf("verify session %s: %v", session, err)
		}
		return err == nil
	})
	if !report.OK() {
		tb.Errorf("session %s: %v", session, report.Bad)
	}
	return report
}

// Verify fails the test if a session's log or its snapshot is not valid.
func (s *System) Verify(tb testing.TB, session string) eventstore.Report {
	tb.Helper()
	return Verify(tb, s.Store, session)
}

// refold returns the encoded state of a session after some events, as a runner saves it.
func refold(session string) func(iter.Seq[schemas.Event]) ([]byte, error) {
	return func(events iter.Seq[schemas.Event]) ([]byte, error) {
		state := &loop.State{Session: session}
		for e := range events {
			if err := state.Apply(e); err != nil {
				return nil, err
			}
		}
		return schemas.Marshal(state)
	}
}
