package view

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// Answers tracks the calls that wait for approval at a terminal, and decides which call an answer is for. An answer
// without a call applies to the only waiting call, but only if no other call was waiting since the user was asked: a
// call that takes the place of another must not receive its answer. The zero value is ready for use. It is not safe
// for concurrent use.
type Answers struct {
	waiting []waitingCall
	missed  bool // the last waiting call ended without an answer from here, and nothing was typed since
}

type waitingCall struct {
	asked schemas.ApprovalRequested // as printed
	alone bool                      // the only waiting call since it was printed
	ours  bool                      // answered here
}

// Add adds a waiting call, as printed, and returns what to type to answer it: yes, or yes and the call.
func (a *Answers) Add(asked schemas.ApprovalRequested, yes, no string) (how string) {
	call := asked.Call
	c := waitingCall{asked: asked, alone: len(a.waiting) == 0 && !a.missed}
	for i := range a.waiting {
		a.waiting[i].alone = false
	}
	a.waiting = append(a.waiting, c)
	if c.alone {
		return fmt.Sprintf("%s, or %s and a reason", yes, no)
	}
	return fmt.Sprintf("%s %s, or %s %s and a reason", yes, call, no, call)
}

// Remove removes a call that no longer waits.
func (a *Answers) Remove(call schemas.CallKey) {
	for i, c := range a.waiting {
		if c.asked.Call == call {
			a.waiting, a.missed = slices.Delete(a.waiting, i, i+1), a.missed || !c.ours
			return
		}
	}
}

// Clear removes all calls, because their run has ended.
func (a *Answers) Clear() {
	for len(a.waiting) > 0 {
		a.Remove(a.waiting[0].asked.Call)
	}
}

// Typed records that the user typed a line that is no answer, so the next one is typed with everything above in view.
func (a *Answers) Typed() { a.missed = false }

// Any reports whether a call waits.
func (a *Answers) Any() bool { return len(a.waiting) > 0 }

// Take returns the request that an answer is for, as it was printed, and the reason. The words may begin with the key
// of a call. The error tells what to type.
func (a *Answers) Take(words string) (asked schemas.ApprovalRequested, reason string, err error) {
	a.missed = false
	word, rest, _ := strings.Cut(strings.TrimSpace(words), " ")
	at := slices.IndexFunc(a.waiting, func(c waitingCall) bool { return string(c.asked.Call) == word })
	switch named := at >= 0; {
	case len(a.waiting) == 0:
		return asked, "", errors.New("no call waits for approval")
	case named:
		reason = strings.TrimSpace(rest)
	case len(a.waiting) == 1 && a.waiting[0].alone && schemas.CallKey(word).Seq() == 0:
		at, reason = 0, strings.TrimSpace(words)
	default:
		names := make([]string, len(a.waiting))
		for i, c := range a.waiting {
			names[i] = string(c.asked.Call)
		}
		return asked, "", fmt.Errorf("several calls may be meant, name one: %s", strings.Join(names, ", "))
	}
	a.waiting[at].ours = true
	return a.waiting[at].asked, reason, nil
}
