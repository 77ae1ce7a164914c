package schemas

// RetryPolicy says how often, and when, a model is asked again after a reply that failed. Attempt n
// waits BaseDelayMs doubled n-1 times, at most MaxDelayMs. MaxRetries 0 is off.
type RetryPolicy struct {
	MaxRetries  int   `json:"maxRetries,omitempty"`
	BaseDelayMs int64 `json:"baseDelayMs,omitempty"`
	MaxDelayMs  int64 `json:"maxDelayMs,omitempty"` // 0 is no cap
}

// DelayMs is how long the attempt with this number, from 1, waits.
func (p RetryPolicy) DelayMs(attempt int) int64 {
	delay := p.BaseDelayMs
	for n := 1; n < attempt && delay < maxInteger/2; n++ {
		delay *= 2
	}
	if p.MaxDelayMs > 0 {
		delay = min(delay, p.MaxDelayMs)
	}
	return delay
}

// AutoRetryStart says that the model will be asked again, DelayMs after this event's time, because the reply MessageID
// failed. The reply stays in the log and leaves the transcript. Attempt counts from 1.
type AutoRetryStart struct {
	Attempt      int    `json:"attempt"`
	MaxAttempts  int    `json:"maxAttempts"`
	DelayMs      int64  `json:"delayMs"`
	ErrorMessage string `json:"errorMessage"`
	MessageID    string `json:"messageId"`
}

// AutoRetryEnd ends what [AutoRetryStart] began: with a good reply, or, with the last error, because there are no more
// attempts or the run is to end.
type AutoRetryEnd struct {
	Success    bool   `json:"success"`
	Attempt    int    `json:"attempt"`
	FinalError string `json:"finalError,omitempty"`
}

// ModelFallback says that the run goes on with the next model of its list, because the reply MessageID of the model
// before failed for good. The reply stays in the log and leaves the transcript.
type ModelFallback struct {
	From         ModelRef `json:"from"`
	To           ModelRef `json:"to"`
	ErrorMessage string   `json:"errorMessage"`
	MessageID    string   `json:"messageId"`
}

// BudgetScope is what a budget is of.
type BudgetScope string

// The scopes of a budget.
const (
	BudgetRun     BudgetScope = "run"
	BudgetSession BudgetScope = "session"
	BudgetProfile BudgetScope = "profile" // of all sessions that follow the profile
)

// BudgetWarning says, once per run, that the run or the session has used the share of its budget at which people want
// to be told. Of tokens and cost those are given that have a limit.
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
