package compaction

import (
	"errors"
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// The reasons why a reply is no summary. Such a reply never replaces the messages that it should stand for.
var (
	// ErrAborted means that the request was aborted.
	ErrAborted = errors.New("summarization aborted")
	// ErrEmpty means that the reply has no text.
	ErrEmpty = errors.New("the model returned an empty summary")
	// ErrCutOff means that the reply ended at its output limit.
	ErrCutOff = errors.New("the summary was cut off by the output limit")
	// ErrTooLong means that the reply would fill the context again on its own.
	ErrTooLong = errors.New("the summary is too long for the context")
)

// A Result is the content of a compaction's entry.
type Result struct {
	Summary      string
	FirstKept    string
	TokensBefore int64
	Files        FileLists
}

// Summarize makes the summary from the replies to [Preparation.Requests], in their order. The error names the request
// that failed; it wraps [ErrAborted], [ErrEmpty] or [ErrCutOff], or has the text of the failure in the reply.
func (p *Preparation) Summarize(replies ...*schemas.AssistantMessage) (Result, error) {
	requests := p.Requests(Asking{})
	if len(replies) != len(requests) {
		return Result{}, fmt.Errorf("%d replies to %d requests for a summary", len(replies), len(requests))
	}
	history, prefix := "No prior history.", ""
	for i, r := range requests {
		text, err := summaryText(replies[i], "Unknown error")
		switch {
		case err != nil && r.Kind == RequestTurnPrefix:
			//lint:ignore ST1005 the text is pi's
			return Result{}, fmt.Errorf("Turn prefix summarization failed: %w", err)
		case err != nil:
			//lint:ignore ST1005 the text is pi's
			return Result{}, fmt.Errorf("Summarization failed: %w", err)
		case r.Kind == RequestTurnPrefix:
			prefix = text
		default:
			history = text
		}
	}
	if p.asksPrefix() {
		history += "\n\n---\n\n**Turn Context (split turn):**\n\n" + prefix
	}
	files := p.Files.Lists()
	return Result{
		Summary: history + files.Text(), FirstKept: p.FirstKept, TokensBefore: p.TokensBefore, Files: files,
	}, nil
}

// summaryText returns the text of a reply that is a summary. A failure without a text is reported as unknown.
func summaryText(reply *schemas.AssistantMessage, unknown string) (string, error) {
	switch reply.StopReason {
	case schemas.StopAborted:
		return "", ErrAborted
	case schemas.StopLength:
		return "", ErrCutOff
	case schemas.StopError:
		if reply.ErrorMessage == "" {
			return "", errors.New(unknown)
		}
		return "", errors.New(reply.ErrorMessage)
	}
	text := strings.Join(texts(reply.Content), "\n")
	if strings.TrimSpace(text) == "" {
		return "", ErrEmpty
	}
	return text, nil
}
