package main

import (
	"errors"
	"time"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// limits are what bounds a run and what is done about replies that fail.
type limits struct {
	MaxTurns         int           `brief:"" help:"End a run after so many turns; 0 for no limit."`
	MaxCost          float64       `brief:"" help:"End a run after so many US dollars; 0 for no limit."`
	RunTimeout       time.Duration `default:"48h" brief:"" help:"End a run after this long; 0 for no limit."`
	IdleTimeout      time.Duration `default:"2m" help:"Abort a model call after this long without output; 0 never."`
	MaxTokens        int           `help:"End a run after so many tokens; 0 for no limit."`
	SessionMaxTokens int           `help:"End a session's runs after so many tokens; 0 for no limit."`
	SessionMaxCost   float64       `help:"End a session's runs after so many US dollars; 0 for no limit."`
	WarnShare        float64       `default:"0.8" help:"Warn at this share of a budget; 0 never."`
	MaxRetries       int           `default:"3" help:"Ask a model so often again after a failure that may pass."`
	RetryDelay       time.Duration `default:"2s" help:"Wait this long before the first retry, then twice as long."`
	MaxRetryDelay    time.Duration `default:"1m" help:"Wait no longer than this before a retry."`
	SubagentDepth    int           `help:"Let sub-agents be nested so deep (default 2)."`
	SubagentsOpen    int           `help:"Let a session have so many sub-agents at work (default 8)."`
	SubagentsPerRun  int           `help:"Let a run begin so many sub-agents (default 32)."`
}

// Check validates the share: no setting can be negative.
func (l *limits) Check(*cli.Call) []error {
	if l.WarnShare > 1 {
		return []error{errors.New("--warn-share: is not 0 to 1")}
	}
	return nil
}

func (l *limits) schema() schemas.Limits {
	return schemas.Limits{
		MaxTurns: l.MaxTurns, MaxTokens: int64(l.MaxTokens), MaxCost: l.MaxCost, SessionMaxTokens: int64(l.SessionMaxTokens),
		SessionMaxCost: l.SessionMaxCost, WarnShare: l.WarnShare, RunTimeoutMs: l.RunTimeout.Milliseconds(),
	}
}

// subagents are what bounds sub-agents where the profile says nothing.
func (l *limits) subagents() schemas.SubagentPolicy {
	return schemas.SubagentPolicy{MaxDepth: l.SubagentDepth, MaxOpen: l.SubagentsOpen, MaxPerRun: l.SubagentsPerRun}
}

func (l *limits) retry() schemas.RetryPolicy {
	return schemas.RetryPolicy{
		MaxRetries: l.MaxRetries, BaseDelayMs: l.RetryDelay.Milliseconds(), MaxDelayMs: l.MaxRetryDelay.Milliseconds(),
	}
}
