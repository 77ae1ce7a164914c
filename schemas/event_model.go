package schemas

// RetryPolicy defines how often and when a failed reply is retried. Retry n waits BaseDelayMs doubled n-1 times, at
// most MaxDelayMs. MaxRetries 0 disables retries.
type RetryPolicy struct {
	MaxRetries  int   `json:"maxRetries,omitempty"`
	BaseDelayMs int64 `json:"baseDelayMs,omitempty"`
	MaxDelayMs  int64 `json:"maxDelayMs,omitempty"` // 0 is no cap
}

// DelayMs returns how long the retry with this number, from 1, waits.
func (p RetryPolicy) DelayMs(attempt int) int64 {
	delay := p.BaseDelayMs
	for n := 1; n < attempt && delay < MaxInteger/2; n++ {
		delay *= 2
	}
	if p.MaxDelayMs > 0 {
		delay = min(delay, p.MaxDelayMs)
	}
	return delay
}

// AutoRetryStart announces a retry of the failed reply MessageID, DelayMs after this event's time. The reply stays in
// the log and is removed from the transcript. Attempt counts from 1.
type AutoRetryStart struct {
	Attempt      int    `json:"attempt"`
	MaxAttempts  int    `json:"maxAttempts"`
	DelayMs      int64  `json:"delayMs"`
	ErrorMessage string `json:"errorMessage"`
	MessageID    string `json:"messageId"`
}

// AutoRetryEnd ends the retries that [AutoRetryStart] began: with a good reply, or, with the last error, because no
// retries are left or the run is about to end.
type AutoRetryEnd struct {
	Success    bool   `json:"success"`
	Attempt    int    `json:"attempt"`
	FinalError string `json:"finalError,omitempty"`
}

// ModelFallback is the event of a run that continues with the next model of its list, because the reply MessageID of
// the model before failed and is not retried. The reply stays in the log and is removed from the transcript.
type ModelFallback struct {
	From         ModelRef `json:"from"`
	To           ModelRef `json:"to"`
	ErrorMessage string   `json:"errorMessage"`
	MessageID    string   `json:"messageId"`
}

// BudgetScope is what a budget limits.
type BudgetScope string

// The scopes of a budget.
const (
	BudgetRun     BudgetScope = "run"
	BudgetSession BudgetScope = "session"
	BudgetProfile BudgetScope = "profile" // of all sessions that follow the profile
)

// BudgetWarning is emitted once per run, when the run, the session or the profile has used the warning share of its
// budget. Of tokens and cost it has those with a limit.
type BudgetWarning struct {
	Scope     BudgetScope `json:"scope"`
	Tokens    int64       `json:"tokens,omitempty"`
	MaxTokens int64       `json:"maxTokens,omitempty"`
	Cost      float64     `json:"cost,omitempty"`
	MaxCost   float64     `json:"maxCost,omitempty"`
}

// EventType returns "auto_retry_start".
func (*AutoRetryStart) EventType() EventType { return EventAutoRetryStart }

// EventType returns "auto_retry_end".
func (*AutoRetryEnd) EventType() EventType { return EventAutoRetryEnd }

// EventType returns "model_fallback".
func (*ModelFallback) EventType() EventType { return EventModelFallback }

// EventType returns "budget_warning".
func (*BudgetWarning) EventType() EventType { return EventBudgetWarning }
