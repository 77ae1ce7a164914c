package driver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// profileBudget returns what all sessions of the run's profile may use together. ok is false if they have no limit.
func (d *Driver) profileBudget() (profile string, b schemas.ProfileBudget, ok bool) {
	d.View(func(s *loop.State) { profile, b = s.Config.Profile, s.Config.Budget })
	return profile, b, d.o.Budgets != nil && profile != "" && b.Limited()
}

// profileUse is what all sessions of a profile have used of their budget.
type profileUse struct {
	budget schemas.ProfileBudget
	tokens int64
	cost   float64
}

// reached reports whether a share of the budget is used up.
func (u profileUse) reached(share float64) bool {
	b := u.budget
	return b.MaxTokens > 0 && float64(u.tokens) >= share*float64(b.MaxTokens) ||
		b.MaxCost > 0 && u.cost >= share*b.MaxCost
}

// profileUse requests what the run's profile has used, once every reply of this driver is counted. The result is zero
// if the profile has no budget.
func (d *Driver) profileUse(ctx context.Context) (u profileUse, err error) {
	profile, budget, ok := d.profileBudget()
	if !ok {
		return u, nil
	}
	if err := d.awaitCounted(ctx); err != nil {
		return u, err
	}
	u.budget = budget
	err = d.outside("budget", func() (err error) {
		u.tokens, u.cost, err = d.o.Budgets.Spent(ctx, profile, budget.Per, d.o.Clock.Now())
		return err
	})
	if err != nil {
		err = fmt.Errorf("budget of profile %s: %w", profile, err)
	}
	return u, err
}

// overProfile checks the budget of the run's profile before a model call. If the budget is used up, it ends the run in
// place of a reply and returns true; if the warning share is, it appends a warning, once per run. A budget that cannot
// be read ends the run too.
func (d *Driver) overProfile(ctx context.Context) (refused bool, err error) {
	u, err := d.profileUse(ctx)
	switch {
	case ctx.Err() != nil:
		return true, ctx.Err()
	case err != nil:
		return true, d.fail(ctx, err)
	case u.reached(1):
		reply := &schemas.AssistantMessage{StopReason: schemas.StopError, ErrorMessage: textOverProfile}
		return true, d.failWith(ctx, reply, schemas.MessageEnd{TerminationReason: schemas.EndBudget})
	}
	warned, b := false, u.budget
	d.View(func(s *loop.State) { warned = s.Run != nil && s.Run.Warned[schemas.BudgetProfile] })
	if warned || b.WarnShare <= 0 || !u.reached(b.WarnShare) {
		return false, nil
	}
	w := &schemas.BudgetWarning{Scope: schemas.BudgetProfile}
	if b.MaxTokens > 0 {
		w.Tokens, w.MaxTokens = u.tokens, b.MaxTokens
	}
	if b.MaxCost > 0 {
		w.Cost, w.MaxCost = u.cost, b.MaxCost
	}
	return false, d.emit(ctx, w, "")
}

// recountWithin is how old a reply may be that is counted again when a session is loaded. Counters remember the ids
// they have counted for ten minutes, so an older reply might count twice.
const recountWithin = 5 * time.Minute

// countForProfile counts a reply that is about to be stored, in the background. The next check of the budget waits for
// it, and so do the end of the run and the acknowledgement of the message that woke the session. If the process dies
// before, the next process finds the reply in the log and counts it ([Driver.recount]). A failed reply is counted
// before countForProfile returns, because a retry removes it from the transcript.
func (d *Driver) countForProfile(ctx context.Context, message string, reply *schemas.AssistantMessage) {
	profile, _, ok := d.profileBudget()
	if !ok || reply.Usage == (schemas.Usage{}) {
		return
	}
	at := d.o.Clock.Now()
	if d.recent(reply) { // the same period for every process that counts the reply
		at = time.UnixMilli(reply.Timestamp).UTC()
	}
	usage := reply.Usage
	// If a session is deleted and its id is used again, message ids repeat.
	id := fmt.Sprintf("%s/%s/%d", d.session, message, at.UnixMilli())
	count := func(ctx context.Context) {
		if err := d.o.Budgets.Add(ctx, profile, id, at, usage); err != nil {
			d.o.Logger.Error("reply not counted for its profile's budget", "session", d.session, "message", message,
				"profile", profile, "tokens", usage.TotalTokens, "err", err)
		}
	}
	if reply.Failed() {
		count(ctx)
		return
	}
	d.View(func(*loop.State) { d.inBackground(&d.counting, "budget", count) })
}

// awaitCounted returns nil once every reply of this driver is counted, or ctx's error.
func (d *Driver) awaitCounted(ctx context.Context) error {
	var last <-chan struct{}
	d.View(func(*loop.State) { last = d.counting.Last() })
	if last == nil {
		return nil
	}
	select {
	case <-last:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// recount counts, once, the newest reply of the log that the driver was given: the process before may have died after
// the reply was stored and before it was counted. All older replies are counted, because a model call waits for the
// count of the reply before it.
func (d *Driver) recount() {
	if d.recounted {
		return
	}
	d.recounted = true
	var id string
	var reply *schemas.AssistantMessage
	d.View(func(s *loop.State) {
		for _, e := range slices.Backward(s.Messages) {
			if m, ok := e.Message.Message.(*schemas.AssistantMessage); ok {
				id, reply = e.ID, m
				return
			}
		}
	})
	// Replies of another session in a copy of it, and replies that a client has set, have other ids.
	if reply == nil || reply.Failed() || !strings.HasPrefix(id, "m") {
		return
	}
	if d.recent(reply) {
		d.countForProfile(context.Background(), id, reply)
	}
}

// recent reports whether a reply says that it is new enough to be counted again. Only then its budget's period is by
// its own time, which a model's server has set and which may be wrong.
func (d *Driver) recent(reply *schemas.AssistantMessage) bool {
	age := d.o.Clock.Now().Sub(time.UnixMilli(reply.Timestamp))
	return age > -recountWithin && age < recountWithin
}
