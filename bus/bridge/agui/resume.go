package agui

import (
	"context"
	"fmt"
	"slices"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// undecided returns the answers of the request that the session has not got, in the order to send them. They must
// answer all calls that wait for approval.
func (r *run) undecided() (commands []resume, err error) {
	if len(r.in.Resume) > maxCalls {
		return nil, &bridge.RequestError{Reason: fmt.Sprintf("a resume of more than %d calls", maxCalls)}
	}
	state := &r.follower.State
	r.decided = map[schemas.CallKey]bool{}
	for _, a := range r.in.Resume {
		asked := a.asked()
		r.decided[asked.Call] = true
		if err := a.check(); err != nil {
			return nil, err
		}
		switch call := state.Call(asked.Call); {
		case !state.Known.Has(r.answerID(a)):
			commands = append(commands, a)
		case call != nil && call.AwaitsApproval(): // if it was answered, the log has the answer with its command
			return nil, &bridge.RequestError{Reason: fmt.Sprintf("resume of %.80q: the session has refused just this answer "+
				"of this run: answer otherwise", a.InterruptID)}
		}
	}
	for _, c := range bridge.Waiting(state) {
		if len(r.in.Resume) > 0 && !r.decided[c.Key] {
			return nil, &bridge.RequestError{Reason: fmt.Sprintf("the resume does not answer %s, which waits, too", c.Key)}
		}
	}
	// Answers that the session may refuse come first, so that a refusal leaves the other calls unanswered.
	slices.SortStableFunc(commands, func(a, b resume) int { return r.riskOfRefusal(b) - r.riskOfRefusal(a) })
	return commands, nil
}

// resume sends the answers. The id of each one contains the run's id, so that a repeated resume changes nothing, and
// its arguments, so that a client can send others after the session has refused some.
func (r *run) resume(ctx context.Context, commands []resume) error {
	for _, a := range commands {
		if err := r.follower.Session.Do(ctx, a.answer(), client.WithID(r.answerID(a))); err != nil {
			return err
		}
	}
	return nil
}

// riskOfRefusal ranks how likely the session refuses an answer: it refers to another request than the waiting one, or
// has arguments.
func (r *run) riskOfRefusal(a resume) int {
	asked := a.asked()
	call := r.follower.State.Call(asked.Call)
	switch {
	case call != nil && call.Approval != nil && call.Approval.OtherThan(asked.Answer("")):
		return 2
	case a.edited() != nil:
		return 1
	}
	return 0
}

func (r *run) answerID(a resume) string {
	id := r.in.RunID + " answers " + a.InterruptID
	if edited := a.edited(); edited != nil {
		id += " " + string(edited)
	}
	return bridge.CommandID(id)
}
