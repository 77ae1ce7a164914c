package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// listed is how many sessions list shows without --all, because it reads the log of each.
const listed = 50

// summary is a session as list prints it.
type summary struct {
	Session   string            `json:"session"`
	Events    uint64            `json:"events"`
	LastEvent schemas.EventType `json:"lastEvent"`
	LastTime  time.Time         `json:"lastTime"`
	State     string            `json:"state"`
	Runs      int               `json:"runs"`
	Turns     int               `json:"turns"`
	Tokens    int64             `json:"tokens"`
	Cost      float64           `json:"cost"` // US dollars
	Problem   string            `json:"problem,omitempty"`
}

// States of a session in a list.
const (
	stateIdle     = "idle"
	stateRunning  = "running"
	stateWaiting  = "waiting for tools"
	stateApproval = "waiting for approval" // at least one call waits for approval, whatever the others wait for
	stateDamaged  = "damaged"
)

func runList(ctx context.Context, a *app) error {
	sessions, err := a.sessions(ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(sessions, func(x, y eventstore.SessionInfo) int {
		return cmp.Or(y.Time.Compare(x.Time), cmp.Compare(x.Session, y.Session))
	})
	left := 0
	if !a.o.all && len(sessions) > listed {
		left = len(sessions) - listed
		sessions = sessions[:listed]
	}
	var all []summary
	for _, info := range sessions {
		s, err := a.summarize(ctx, info)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	if err := a.printList(all, left); err != nil {
		return err
	}
	var errs []error
	for _, s := range all {
		if s.Problem != "" {
			errs = append(errs, errors.New(s.Problem))
		}
	}
	return errors.Join(errs...)
}

// summarize reads a session's log. A damaged log is not an error, so that the other sessions are still listed.
func (a *app) summarize(ctx context.Context, info eventstore.SessionInfo) (summary, error) {
	s := summary{Session: info.Session, Events: info.Events, LastEvent: info.Last, LastTime: info.Time}
	state := new(loop.State)
	for e, err := range a.store.Read(ctx, info.Session, 1) {
		if err == nil {
			err = state.Apply(e)
		}
		if errors.Is(err, eventstore.ErrDamaged) {
			s.State, s.Problem = stateDamaged, err.Error()
			return s, nil
		}
		if err != nil {
			return s, err
		}
		if _, ok := e.Data.(*schemas.TurnStart); ok {
			s.Turns++
		}
		s.LastEvent, s.LastTime, s.Events = e.Type(), e.Time, e.Seq
	}
	s.State, s.Runs = stateOf(state), state.Runs
	s.Tokens, s.Cost = state.Usage.TotalTokens, state.Usage.Cost.Total
	return s, nil
}

func stateOf(s *loop.State) string {
	switch {
	case s.Idle():
		return stateIdle
	case len(s.AwaitingApproval()) > 0:
		return stateApproval
	case len(s.PendingToolCalls()) > 0:
		return stateWaiting
	}
	return stateRunning
}

func (a *app) printList(all []summary, left int) error {
	if a.o.json {
		enc := json.NewEncoder(cli.JSONOut(a.out, a.toTerm))
		for _, s := range all {
			if err := enc.Encode(s); err != nil {
				return err
			}
		}
	} else {
		w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "SESSION\tEVENTS\tLAST EVENT\tAT\tSTATE\tTURNS\tCOST")
		for _, s := range all {
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%d\t%s\n", s.Session, s.Events, oneLine(string(s.LastEvent), 40),
				clock(s.LastTime), s.State, s.Turns, dollars(s.Cost))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if left > 0 {
		a.log.Warn("more sessions exist, use --all to list them", "left", left)
	}
	return nil
}
