package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// verdict is what verify prints about a session.
type verdict struct {
	Session  string   `json:"session"`
	OK       bool     `json:"ok"`
	Events   uint64   `json:"events"`         // number of valid events from the first on
	Hash     string   `json:"hash,omitempty"` // of the message with the last valid event
	Blobs    int      `json:"blobs,omitempty"`
	Snapshot uint64   `json:"snapshot,omitempty"` // sequence of the snapshot that was checked
	Foreign  int      `json:"foreign,omitempty"`  // messages on the log's subject that do not belong to it
	Event    uint64   `json:"event,omitempty"`    // sequence of the first bad event
	Problem  string   `json:"problem,omitempty"`
	at       []uint64 // stream sequences of the first foreign messages
}

// runVerify verifies all sessions, even if some are bad.
func runVerify(ctx context.Context, a *app) error {
	sessions := a.o.sessions
	if len(sessions) == 0 {
		all, err := a.sessions(ctx)
		if err != nil {
			return err
		}
		for _, info := range all {
			sessions = append(sessions, info.Session)
		}
	}
	var bad int
	for _, session := range sessions {
		v := a.verify(ctx, session)
		if ctx.Err() != nil {
			return fmt.Errorf("verify session %s: %w", session, context.Cause(ctx))
		}
		if !v.OK {
			bad++
		}
		if err := a.printVerdict(v); err != nil {
			return err
		}
	}
	if !a.o.json {
		fmt.Fprintf(a.out, "%s, %s\n", plural(len(sessions), "session"), a.style.problem(bad > 0, fmt.Sprintf("%d bad", bad)))
	}
	if bad > 0 {
		return errReported
	}
	return nil
}

func (a *app) verify(ctx context.Context, session string) verdict {
	report, err := a.store.Verify(ctx, session, eventstore.VerifyOptions{
		Version: loop.FoldVersion,
		Refold:  func(events iter.Seq[schemas.Event]) ([]byte, error) { return refold(session, events) },
	})
	v := verdict{Session: session, OK: err == nil && report.OK() && report.Events > 0, Events: report.Events,
		Hash: report.Hash, Blobs: report.Blobs, Snapshot: report.Snapshot, Foreign: report.ForeignCount, at: report.Foreign}
	switch {
	case err != nil:
		v.Problem = err.Error()
	case !report.OK():
		v.Event, v.Problem = report.Bad.Seq, report.Bad.Error()
	case report.Events == 0:
		v.Problem = "no log"
	}
	return v
}

func (a *app) printVerdict(v verdict) error {
	defer a.out.Flush() // print each verdict at once: a long log takes a while
	if a.o.json {
		return json.NewEncoder(cli.JSONOut(a.out, a.toTerm)).Encode(v)
	}
	fmt.Fprintf(a.out, "%s: ", v.Session)
	if !v.OK {
		_, err := fmt.Fprintf(a.out, "%s: %s\n", a.style.problem(true, "BAD"), oneLine(v.Problem, maxLine))
		return err
	}
	fmt.Fprintf(a.out, "ok, %s", plural(int(v.Events), "event"))
	if v.Blobs > 0 {
		fmt.Fprintf(a.out, ", %s in the object store", plural(v.Blobs, "payload"))
	}
	if v.Snapshot > 0 {
		fmt.Fprintf(a.out, ", snapshot at %d", v.Snapshot)
	}
	fmt.Fprintf(a.out, ", hash %s", v.Hash)
	if v.Foreign > 0 {
		fmt.Fprintf(a.out, "; %s on its subject that no log wrote, at %s of the stream", plural(v.Foreign, "message"),
			places(v.at, v.Foreign))
	}
	return a.out.WriteByte('\n')
}

// places lists sequences, the first of n.
func places(at []uint64, n int) string {
	text := make([]string, len(at))
	for i, seq := range at {
		text[i] = fmt.Sprint(seq)
	}
	if n > len(at) {
		text = append(text, "…")
	}
	return strings.Join(text, ", ")
}

// refold folds events and returns the state as a runner saves it.
func refold(session string, events iter.Seq[schemas.Event]) ([]byte, error) {
	state := &loop.State{Session: session}
	for e := range events {
		if err := state.Apply(e); err != nil {
			return nil, err
		}
	}
	return schemas.Marshal(state)
}
