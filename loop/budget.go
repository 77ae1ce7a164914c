package loop

import "github.com/loopbus/loopbus/schemas"

// budget is what a run or a session may use, and what it has used.
type budget struct {
	scope     schemas.BudgetScope
	used      schemas.Usage
	maxTokens int64
	maxCost   float64
}

func budgets(s *State, r *Run) [2]budget {
	l := s.Config.Limits
	return [2]budget{
		{schemas.BudgetRun, r.Usage, l.MaxTokens, l.MaxCost},
		{schemas.BudgetSession, s.Usage, l.SessionMaxTokens, l.SessionMaxCost},
	}
}

// reached reports whether a share of the budget is used up.
func (b budget) reached(share float64) bool {
	return b.maxTokens > 0 && float64(b.used.TotalTokens) >= share*float64(b.maxTokens) ||
		b.maxCost > 0 && b.used.Cost.Total >= share*b.maxCost
}

func overBudget(s *State, r *Run) bool {
	for _, b := range budgets(s, r) {
		if b.reached(1) {
			return true
		}
	}
	return false
}

// budgetWarning returns the warning that is due, or nil. Each scope is warned of once in a run.
func budgetWarning(s *State, r *Run) *schemas.BudgetWarning {
	share := s.Config.Limits.WarnShare
	if share <= 0 {
		return nil
	}
	for _, b := range budgets(s, r) {
		if r.Warned[b.scope] || !b.reached(share) {
			continue
		}
		w := &schemas.BudgetWarning{Scope: b.scope, MaxTokens: b.maxTokens, MaxCost: b.maxCost}
		if b.maxTokens > 0 {
			w.Tokens = b.used.TotalTokens
		}
		if b.maxCost > 0 {
			w.Cost = b.used.Cost.Total
		}
		return w
	}
	return nil
}

func (r *Run) warn(scope schemas.BudgetScope) {
	if r.Warned == nil {
		r.Warned = make(map[schemas.BudgetScope]bool)
	}
	r.Warned[scope] = true
}
