package rerun

import (
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// A Plan is what a log says about a rerun.
type Plan struct {
	Session string
	Seq     uint64 // the branch is a copy up to this event
	// Prompt is sent to the branch; without one the run continues with the copied messages.
	Prompt *schemas.Input
	// Config is the recorded configuration of the run, empty if there was no run.
	Config  schemas.RunConfig
	Answers *Answers
}

// NewPlan reads the log of a session for a rerun from the event at. An event in the middle of a tool's result is
// replaced by the end of the result. Pending input at the event is sent again: the prompt whose messages are not all in
// the transcript yet or, if the context ends with a reply, the queued input. The error reports that there is no such
// event, or that a model has nothing to answer there, and then lists the prompts.
func NewPlan(session string, at uint64, events iter.Seq2[schemas.Event, error]) (*Plan, error) {
	p := &planner{plan: &Plan{Session: session, Answers: newAnswers(session)}, at: at}
	for e, err := range events {
		if err == nil {
			err = p.add(e)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case p.state.Seq == 0:
		return nil, fmt.Errorf("session %s has no log", session)
	case p.plan.Seq == 0:
		return nil, fmt.Errorf("session %s has no event %d that a copy can end at: it ends at %d", session, at, p.state.Seq)
	case errors.Is(p.err, errNothingAsked) && len(p.prompts) > 0:
		return nil, fmt.Errorf("re-run session %s from event %d: %w; its prompts are at %s", session, at, p.err,
			strings.Join(p.prompts, ", "))
	case p.err != nil:
		return nil, fmt.Errorf("re-run session %s from event %d: %w", session, at, p.err)
	}
	p.plan.Answers.since(p.plan.Seq)
	return p.plan, nil
}

// errNothingAsked reports that a model has nothing to answer.
var errNothingAsked = errors.New("nothing is asked there: the context is empty, or ends with a reply")

// maxPrompts is how many prompts an error lists, the latest ones.
const maxPrompts = 20

// A planner folds a log.
type planner struct {
	plan       *Plan
	at         uint64
	state      loop.State
	configured bool
	prompts    []string // where users' messages begin
	err        error    // of the event at which the copy ends
}

func (p *planner) add(e schemas.Event) error {
	if err := p.state.Apply(e); err != nil {
		return err
	}
	if d, ok := e.Data.(*schemas.MessageStart); ok && d.Role == schemas.RoleUser {
		if p.prompts = append(p.prompts, fmt.Sprint(e.Seq)); len(p.prompts) > maxPrompts {
			p.prompts = p.prompts[1:]
		}
	}
	p.plan.Answers.record(&p.state, e)
	if p.plan.Seq == 0 && e.Seq >= p.at && !announcesResult(&p.state) {
		p.plan.Seq = e.Seq
		p.plan.Prompt, p.err = asked(&p.state)
		p.configured = p.state.Run != nil
		p.plan.Config = p.state.Config
	}
	if _, begins := e.Data.(*schemas.AgentStart); begins && p.plan.Seq > 0 && !p.configured {
		p.configured, p.plan.Config = true, p.state.Config
	}
	return nil
}

// announcesResult reports whether a tool's result is announced but not yet in the log: transcripts name a result by the
// event at which it begins.
func announcesResult(s *loop.State) bool {
	return s.Run != nil && s.Run.Open != nil && s.Run.Open.Message.Message.MessageRole() == schemas.RoleToolResult
}

// asked returns the input to send to a branch of the state; nil if a model can answer the transcript unchanged.
func asked(s *loop.State) (*schemas.Input, error) {
	if s.Run != nil {
		if in := begun(s.Run); in != nil {
			return in, nil
		}
	}
	messages := s.Branched().Messages
	open := len(messages) > 0 && messages[len(messages)-1].MessageRole() != schemas.RoleAssistant
	if open && (s.Run != nil || len(s.Prompts) == 0) {
		return nil, nil
	}
	for _, queue := range [][]loop.Input{s.Steering, s.FollowUp, s.Prompts} {
		for _, in := range queue {
			if len(in.Messages) > 0 {
				return input(in, 0), nil
			}
		}
	}
	if open {
		return nil, nil
	}
	return nil, errNothingAsked
}

// begun returns the input of a run that is not in the transcript yet; nil if all of it is.
func begun(r *loop.Run) *schemas.Input {
	var all *schemas.Input
	for i, in := range r.Inject {
		from := 0
		if i == 0 {
			from = min(len(r.Injected), len(in.Messages))
		}
		more := input(in, from)
		switch {
		case len(more.Messages) == 0:
		case all == nil:
			all = more
		default:
			all.Messages = append(all.Messages, more.Messages...)
		}
	}
	return all
}

// input returns a queued input without its first messages.
func input(in loop.Input, from int) *schemas.Input {
	messages := append(schemas.Messages{}, in.Messages[from:]...)
	return &schemas.Input{Messages: messages, Expand: in.Expand && !in.Screened}
}
