package driver

import (
	"context"
	"fmt"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// profileBudget is what all sessions of the run's profile may use together; ok is false where nothing bounds them.
func (d *Driver) profileBudget() (profile string, b schemas.ProfileBudget, ok bool) {
	d.View(func(s *loop.State) { profile, b = s.Config.Profile, s.Config.Budget })
	return profile, b, d.o.Budgets != nil && profile != "" && b.Limited()
}

// overProfile looks at the budget of the run's profile before a model is called. Where it is used up it ends the run in place
// of a reply, and returns true; where a share of it is, it says so once per run. A budget that cannot be read ends the run too.
func (d *Driver) overProfile(ctx context.Context) (refused bool, err error) {
	profile, budget, ok := d.profileBudget()
	if !ok {
		return false, nil
	}
	now := d.o.Clock.Now()
	tokens, cost, err := d.o.Budgets.Spent(ctx, profile, budget.Per, now)
	if ctx.Err() != nil {
		return true, ctx.Err()
	}
	if err != nil {
		return true, d.fail(ctx, fmt.Errorf("budget of profile %s: %w", profile, err))
	}
	if spent(tokens, cost, budget, 1) {
		reply := &schemas.AssistantMessage{StopReason: schemas.StopError, ErrorMessage: TextOverProfile, Timestamp: now.UnixMilli()}
		return true, d.failWith(ctx, reply, schemas.MessageEnd{TerminationReason: schemas.EndBudget})
	}
	warned := false
	d.View(func(s *loop.State) { warned = s.Run != nil && s.Run.Warned[schemas.BudgetProfile] })
	if warned || budget.WarnShare <= 0 || !spent(tokens, cost, budget, budget.WarnShare) {
		return false, nil
	}
	w := &schemas.BudgetWarning{Scope: schemas.BudgetProfile}
	if budget.MaxTokens > 0 {
		w.Tokens, w.MaxTokens = tokens, budget.MaxTokens
	}
	if budget.MaxCost > 0 {
		w.Cost, w.MaxCost = cost, budget.MaxCost
	}
	return false, d.emit(ctx, w, "")
}

func spent(tokens int64, cost float64, b schemas.ProfileBudget, share float64) bool {
	return b.MaxTokens > 0 && float64(tokens) >= share*float64(b.MaxTokens) || b.MaxCost > 0 && cost >= share*b.MaxCost
}

// countForProfile counts a reply, before it is stored: what it used is used, whatever becomes of it.
func (d *Driver) countForProfile(ctx context.Context, message string, u schemas.Usage) {
	profile, _, ok := d.profileBudget()
	if !ok || u == (schemas.Usage{}) {
		return
	}
	if err := d.o.Budgets.Add(ctx, profile, d.session+"/"+message, d.o.Clock.Now(), u); err != nil {
		d.o.Logger.Error("reply not counted for its profile's budget", "session", d.session, "message", message, "profile", profile,
			"tokens", u.TotalTokens, "err", err)
	}
}
