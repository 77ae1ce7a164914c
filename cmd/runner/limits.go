package main

import (
	"fmt"
	"time"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// limits bound runs, and configure retries of failed model calls.
type limits struct {
	MaxTurns         int           `brief:"" help:"End a run after this many turns; 0 for no limit."`
	MaxCost          float64       `brief:"" help:"End a run at this cost in US dollars; 0 for no limit."`
	RunTimeout       time.Duration `default:"48h" brief:"" help:"End a run after this long; 0 for no limit."`
	IdleTimeout      time.Duration `default:"2m" help:"Abort a model call after this long without output; 0 never."`
	MaxTokens        int           `help:"End a run after this many tokens; 0 for no limit."`
	SessionMaxTokens int           `help:"Limit the tokens of a session; 0 for no limit."`
	SessionMaxCost   float64       `help:"Limit the cost of a session in US dollars; 0 for no limit."`
	WarnShare        float64       `default:"0.8" help:"Warn at this share of a budget; 0 never."`
	MaxRetries       int           `default:"3" help:"Retry a model call this many times after a transient failure."`
	RetryDelay       time.Duration `default:"2s" help:"Wait this long before the first retry, doubling each time."`
	MaxRetryDelay    time.Duration `default:"1m" help:"Limit the wait before a retry."`
	SubagentDepth    int           `default:"2" help:"Limit the nesting of sub-agents."`
	SubagentsOpen    int           `default:"8" help:"Limit a session's sub-agents at work at once."`
	SubagentsPerRun  int           `default:"32" help:"Limit the sub-agents that a run may start."`
}

// Check validates the share and the limits of sub-agents; other settings cannot be out of range.
func (l *limits) Check(*cli.Call) (errs []error) {
	if l.WarnShare > 1 {
		errs = append(errs, fmt.Errorf("--warn-share: %g is not between 0 and 1", l.WarnShare))
	}
	for _, n := range []struct {
		flag  string
		value int
	}{
		{"subagent-depth", l.SubagentDepth}, {"subagents-open", l.SubagentsOpen}, {"subagents-per-run", l.SubagentsPerRun},
	} {
		if n.value < 1 {
			errs = append(errs, fmt.Errorf("--%s: must be at least 1; to allow no sub-agents, leave agent out of "+
				"--extension-tools and of the extensionTools of profiles", n.flag))
		}
	}
	return errs
}

func (l *limits) schema() schemas.Limits {
	return schemas.Limits{
		MaxTurns: l.MaxTurns, MaxTokens: int64(l.MaxTokens), MaxCost: l.MaxCost, SessionMaxTokens: int64(l.SessionMaxTokens),
		SessionMaxCost: l.SessionMaxCost, WarnShare: l.WarnShare, RunTimeoutMs: l.RunTimeout.Milliseconds(),
	}
}

// subagents returns the limits of sub-agents for sessions whose profile sets none.
func (l *limits) subagents() schemas.SubagentPolicy {
	return schemas.SubagentPolicy{MaxDepth: l.SubagentDepth, MaxOpen: l.SubagentsOpen, MaxPerRun: l.SubagentsPerRun}
}

func (l *limits) retry() schemas.RetryPolicy {
	return schemas.RetryPolicy{
		MaxRetries: l.MaxRetries, BaseDelayMs: l.RetryDelay.Milliseconds(), MaxDelayMs: l.MaxRetryDelay.Milliseconds(),
	}
}
