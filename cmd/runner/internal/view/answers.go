package view

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// Answers are the calls that wait for somebody's approval at a terminal, and say which of them an answer is for. An
// answer without a call is for the one that waits, if there was no other since the person who answers was asked about
// it: a call that takes another's place must not get its answer. The zero value is ready. It is of one goroutine.
type Answers struct {
	waiting []waitingCall
	missed  bool // the last call that waited has ended without an answer from here, and nothing was typed since
}

type waitingCall struct {
	key   schemas.CallKey
	alone bool // it was the only one when it was asked about, and since
	ours  bool // it was answered here
}

// Add takes a call that begins to wait, and returns how it is to be answered: yes, or yes and the call.
func (a *Answers) Add(call schemas.CallKey, yes, no string) (how string) {
	c := waitingCall{key: call, alone: len(a.waiting) == 0 && !a.missed}
	for i := range a.waiting {
		a.waiting[i].alone = false
	}
	a.waiting = append(a.waiting, c)
	if c.alone {
		return fmt.Sprintf("%s, or %s and a reason", yes, no)
	}
	return fmt.Sprintf("%s %s, or %s %s and a reason", yes, call, no, call)
}

// Remove takes a call away that waits no more.
func (a *Answers) Remove(call schemas.CallKey) {
	for i, c := range a.waiting {
		if c.key == call {
			a.waiting, a.missed = slices.Delete(a.waiting, i, i+1), a.missed || !c.ours
			return
		}
	}
}

// Clear takes all calls away: their run has ended.
func (a *Answers) Clear() {
	for len(a.waiting) > 0 {
		a.Remove(a.waiting[0].key)
	}
}

// Typed says that a line was typed that answers nothing: whoever types the next one has seen what came before.
func (a *Answers) Typed() { a.missed = false }

// Any reports whether a call waits.
func (a *Answers) Any() bool { return len(a.waiting) > 0 }

// Take returns the call that an answer is for, and its reason. The words of an answer may begin with the call. An
// error says what to type.
func (a *Answers) Take(words string) (call schemas.CallKey, reason string, err error) {
	a.missed = false
	word, rest, _ := strings.Cut(strings.TrimSpace(words), " ")
	at := slices.IndexFunc(a.waiting, func(c waitingCall) bool { return string(c.key) == word })
	switch named := at >= 0; {
	case len(a.waiting) == 0:
		return "", "", errors.New("no call waits for approval")
	case named:
		reason = strings.TrimSpace(rest)
	case len(a.waiting) == 1 && a.waiting[0].alone && schemas.CallKey(word).Seq() == 0:
		at, reason = 0, strings.TrimSpace(words)
	default:
		names := make([]string, len(a.waiting))
		for i, c := range a.waiting {
			names[i] = string(c.key)
		}
		return "", "", fmt.Errorf("name the call that is meant: %s", strings.Join(names, ", "))
	}
	a.waiting[at].ours = true
	return a.waiting[at].key, reason, nil
}
