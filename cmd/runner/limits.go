package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/loopbus/loopbus/cmd/internal/config"
	"github.com/loopbus/loopbus/schemas"
)

// limits are what bounds a run and what is done about replies that fail.
type limits struct {
	runTimeout                         time.Duration
	maxTurns                           int
	maxTokens, sessionMaxTokens        int
	maxCost, sessionMaxCost, warnShare float64
	maxRetries                         int
	retryDelay, maxRetryDelay          time.Duration
}

func (l *limits) define(s *config.Set) {
	s.Duration(&l.runTimeout, "run-timeout", 48*time.Hour, "longest a run may take, 0 for no limit")
	s.Int(&l.maxTurns, "max-turns", 0, "turns after which a run ends, 0 for no limit")
	s.Int(&l.maxTokens, "max-tokens", 0, "tokens after which a run ends, 0 for no limit")
	s.Float(&l.maxCost, "max-cost", 0, "US dollars after which a run ends, 0 for no limit")
	s.Int(&l.sessionMaxTokens, "session-max-tokens", 0, "tokens after which a session's runs end, 0 for no limit")
	s.Float(&l.sessionMaxCost, "session-max-cost", 0, "US dollars after which a session's runs end, 0 for no limit")
	s.Float(&l.warnShare, "warn-share", 0.8, "share of a budget at which a budget_warning is given, 0 for none")
	s.Int(&l.maxRetries, "max-retries", 3, "times a model is asked again after a failure that may pass")
	s.Duration(&l.retryDelay, "retry-delay", 2*time.Second, "wait before the first retry, doubled for each further one")
	s.Duration(&l.maxRetryDelay, "max-retry-delay", time.Minute, "longest wait before a retry")
}

func (l *limits) check() (errs []error) {
	for _, n := range []struct {
		flag  string
		value float64
	}{
		{"--run-timeout", l.runTimeout.Seconds()}, {"--max-turns", float64(l.maxTurns)}, {"--max-tokens", float64(l.maxTokens)},
		{"--max-cost", l.maxCost}, {"--session-max-tokens", float64(l.sessionMaxTokens)},
		{"--session-max-cost", l.sessionMaxCost}, {"--max-retries", float64(l.maxRetries)},
		{"--retry-delay", l.retryDelay.Seconds()}, {"--max-retry-delay", l.maxRetryDelay.Seconds()},
	} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("%s: is negative", n.flag))
		}
	}
	if l.warnShare < 0 || l.warnShare > 1 {
		errs = append(errs, errors.New("--warn-share: is not 0 to 1"))
	}
	return errs
}

func (l *limits) schema() schemas.Limits {
	return schemas.Limits{
		MaxTurns: l.maxTurns, MaxTokens: int64(l.maxTokens), MaxCost: l.maxCost, SessionMaxTokens: int64(l.sessionMaxTokens),
		SessionMaxCost: l.sessionMaxCost, WarnShare: l.warnShare, RunTimeoutMs: l.runTimeout.Milliseconds(),
	}
}

func (l *limits) retry() schemas.RetryPolicy {
	return schemas.RetryPolicy{
		MaxRetries: l.maxRetries, BaseDelayMs: l.retryDelay.Milliseconds(), MaxDelayMs: l.maxRetryDelay.Milliseconds(),
	}
}
