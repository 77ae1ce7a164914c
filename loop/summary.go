package loop

import (
	"cmp"
	"errors"
	"time"

	"github.com/loopbus/loopbus/loop/compaction"
	"github.com/loopbus/loopbus/schemas"
)

// Summing is the work on a summary: what was requested from a model and what it has replied. It is in the state, so
// that any process can continue it.
type Summing struct {
	Ask      schemas.Summing       `json:"ask"`
	Good     []schemas.AnyMessage  `json:"good,omitempty"` // replies that are summaries, one for each part
	Attempt  int                   `json:"attempt,omitempty"`
	NextAt   time.Time             `json:"nextAt,omitzero"` // earliest time of the next request
	Failed   string                `json:"failed,omitempty"`
	Usage    schemas.Usage         `json:"usage,omitzero"`
	Abort    *Abort                `json:"abort,omitempty"`
	Decision *schemas.HookDecision `json:"decision,omitempty"` // of the services of the hook
}

// Summarize tells the driver to ask the services of the hook, unless it was decided ([State.SummaryHook]); then to send
// the model, not before NotBefore, the request of [State.SummaryRequest], and to append the summary_end that
// [State.SummaryEnd] makes of the reply.
type Summarize struct{ NotBefore time.Time }

func (Summarize) step() {}

// SummaryRequest is a request to a model for a summary. Attempt is the number of the retry, 0 for the first request.
type SummaryRequest struct {
	compaction.Request
	Ask     schemas.Summing
	Attempt int
}

// summing returns the work on a summary that is under way, or nil.
func (s *State) summing() *Summing {
	switch {
	case s.Compacting != nil && s.Compacting.Seq > 0:
		return &s.Compacting.Summing
	case s.Navigating != nil && s.Navigating.Seq > 0:
		return &s.Navigating.Summing
	}
	return nil
}

// SummaryRequest returns the request that is due; false if none is.
func (s *State) SummaryRequest() (SummaryRequest, bool) {
	w := s.summing()
	if w == nil {
		return SummaryRequest{}, false
	}
	requests := s.summaryRequests()
	if len(w.Good) >= len(requests) {
		return SummaryRequest{}, false
	}
	return SummaryRequest{Request: requests[len(w.Good)], Ask: w.Ask, Attempt: w.Attempt}, true
}

func (s *State) summaryRequests() []compaction.Request {
	if s.Compacting != nil && s.Compacting.Seq > 0 {
		return s.preparation().Requests(compaction.Asking{
			Focus: s.Compacting.Start.CustomInstructions, Reasons: true, ThinkingLevel: s.Compacting.Ask.ThinkingLevel,
		})
	}
	r, err := s.branchPreparation().Request(s.Navigating.instructions())
	if err != nil {
		return nil
	}
	return []compaction.Request{r}
}

// SummaryEnd returns the event for a reply to [State.SummaryRequest]. A reply that is no summary is retried as often as
// the retry policy allows; retryable reports whether a retry may help after a failed reply.
func (s *State) SummaryEnd(reply *schemas.AssistantMessage, retryable bool) *schemas.SummaryEnd {
	w, request, ok := s.summing(), SummaryRequest{}, false
	if request, ok = s.SummaryRequest(); !ok {
		return nil
	}
	end := &schemas.SummaryEnd{Part: string(request.Kind), Message: schemas.AnyMessage{Message: reply}}
	err := s.noSummary(request, reply)
	if err == nil {
		return end
	}
	end.Error = err.Error()
	again := retryable || errors.Is(err, compaction.ErrEmpty) || errors.Is(err, compaction.ErrCutOff) ||
		errors.Is(err, compaction.ErrTooLong)
	if again && w.Attempt < w.Ask.Retry.MaxRetries {
		end.Retry, end.RetryDelayMs = true, w.Ask.Retry.DelayMs(w.Attempt+1)
	}
	return end
}

// noSummary returns why a reply is no summary.
func (s *State) noSummary(r SummaryRequest, reply *schemas.AssistantMessage) error {
	if s.Compacting == nil || s.Compacting.Seq == 0 {
		text, _, err := s.branchPreparation().Summarize(reply)
		return cmp.Or(err, s.tooLong(r, text))
	}
	p := *s.preparation()
	if r.Kind == compaction.RequestTurnPrefix {
		p.History = nil
	} else {
		p.Split, p.TurnPrefix = false, nil
	}
	result, err := p.Summarize(reply)
	return cmp.Or(err, s.tooLong(r, result.Summary))
}

// tooLong returns an error for a summary that would have to be compacted at once. A model that repeats itself, and a
// server that ignores the output limit, make such ones. Then no later request would fit either, because a summary alone
// is not compacted again.
func (s *State) tooLong(r SummaryRequest, summary string) error {
	window := r.Ask.ContextWindow
	if window <= 0 {
		return nil
	}
	reserve := compactionSettings(s.Config.Compaction, window).ReserveTokens
	message := &schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: summary}}}
	if compaction.EstimateTokens(message) > max(window-reserve, 2*r.MaxTokens) {
		return compaction.ErrTooLong
	}
	return nil
}

// summaryEnd folds the outcome of a request.
func (s *State) summaryEnd(e schemas.Event, d *schemas.SummaryEnd) {
	w := s.summing()
	reply, ok := d.Message.Message.(*schemas.AssistantMessage)
	if w == nil || !ok {
		return
	}
	w.Usage, s.Usage = w.Usage.Add(reply.Usage), s.Usage.Add(reply.Usage)
	if s.Run != nil {
		s.Run.Usage = s.Run.Usage.Add(reply.Usage)
	}
	switch {
	case d.Error == "":
		w.Good, w.Attempt, w.NextAt = append(w.Good[:len(w.Good):len(w.Good)], d.Message), 0, time.Time{}
	case d.Retry:
		w.Attempt++
		w.NextAt = schemas.After(e.Time, d.RetryDelayMs)
	default:
		w.Failed = d.Error
	}
}

// Aborted reports whether the run under way is to end or, without a run, the summary under way is to be given up.
func (s *State) Aborted() bool {
	if s.Run != nil {
		return s.Run.Abort != nil
	}
	return s.Compacting != nil && s.Compacting.Abort != nil || s.Navigating != nil && s.Navigating.Abort != nil
}

// SummaryHook returns the hook whose services are to be asked about the summary under way, "" if it was decided, and
// the request for the services.
func (s *State) SummaryHook() (hook schemas.HookName, req schemas.HookRequest) {
	w := s.summing()
	switch {
	case w == nil || w.Decision != nil || len(w.Good) > 0 || w.Attempt > 0:
	case s.Compacting != nil && s.Compacting.Seq > 0:
		p := s.preparation()
		start := s.Compacting.Start
		req.Compaction, req.CommandID = &start, start.CommandID
		req.Messages = append(append(schemas.Messages{}, p.History...), p.TurnPrefix...)
		return schemas.HookSessionBeforeCompact, req
	}
	return "", req
}

func (s *State) replies(w *Summing) (list []*schemas.AssistantMessage) {
	for _, m := range w.Good {
		if reply, ok := m.Message.(*schemas.AssistantMessage); ok {
			list = append(list, reply)
		}
	}
	return list
}
