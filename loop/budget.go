package loop

import (
	"github.com/loopbus/loopbus/schemas"
)

// budget is the limit of a run or a session, and what it has used.
type budget struct {
	scope     schemas.BudgetScope
	used      schemas.Usage
	maxTokens int64
	maxCost   float64

	promisedTokens int64 // to sub-agents at work
	promisedCost   float64
}

func budgets(s *State, r *Run) [2]budget {
	l := s.Config.Limits
	tokens, cost := s.promised()
	return [2]budget{
		{schemas.BudgetRun, r.Usage, l.MaxTokens, l.MaxCost, tokens, cost},
		{schemas.BudgetSession, s.Usage, l.SessionMaxTokens, l.SessionMaxCost, tokens, cost},
	}
}

// leftTokens and leftCost return what is neither used nor promised.
func (b budget) leftTokens() int64 { return b.maxTokens - b.used.TotalTokens - b.promisedTokens }

func (b budget) leftCost() float64 { return b.maxCost - b.used.Cost.Total - b.promisedCost }

// reached reports whether a share of the budget is used up.
func (b budget) reached(share float64) bool {
	return b.maxTokens > 0 && float64(b.used.TotalTokens+b.promisedTokens) >= share*float64(b.maxTokens) ||
		b.maxCost > 0 && b.used.Cost.Total+b.promisedCost >= share*b.maxCost
}

func overBudget(s *State, r *Run) bool {
	for _, b := range budgets(s, r) {
		if b.reached(1) {
			return true
		}
	}
	return false
}

// budgetWarning returns the warning that is due, or nil. A run gets one warning for each scope.
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

// promised returns what the sub-agents at work may use.
func (s *State) promised() (tokens int64, cost float64) {
	for _, c := range s.Children {
		tokens, cost = tokens+c.Start.MaxTokens, cost+c.Start.MaxCost
	}
	return tokens, cost
}

// share returns what a sub-agent may use: its share of the smallest rest of a budget, zero without a budget. It returns
// false if nothing is left.
func (s *State) share(part float64) (tokens int64, cost float64, ok bool) {
	for _, b := range budgets(s, s.Run) {
		if b.maxTokens > 0 {
			if b.leftTokens() <= 0 {
				return 0, 0, false
			}
			tokens = leastOf(tokens, max(int64(part*float64(b.leftTokens())), 1))
		}
		if b.maxCost > 0 {
			if b.leftCost() <= 0 {
				return 0, 0, false
			}
			cost = leastOf(cost, max(part*b.leftCost(), leastCost))
		}
	}
	return tokens, cost, true
}

// leastCost is the smallest limit of costs, in US dollars: a share may be so small that its product is zero, which
// would be no limit.
const leastCost = 1e-9

// leastOf returns the lower of two limits, where zero is no limit.
func leastOf[T int64 | float64](a, b T) T {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

func (s *State) overBudget() bool {
	if s.Run != nil {
		return overBudget(s, s.Run)
	}
	return overBudget(s, &Run{})
}
