// Package history holds what happened against what is promised: what clients sent and saw acknowledged, what the logs
// say, and what the tools counted.
package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Command is a command as its client knows it. Commands of a session are in the order in which one client sent them,
// each after it knew of the one before what it ever would.
type Command struct {
	Session string
	ID      string
	Kind    schemas.CommandKind
	Text    string    // of an input
	Acked   time.Time // first acknowledgement, zero if there was none: it may have arrived or not
	Sent    time.Time // first attempt
	Copies  int       // how often it was sent, attempts of unknown outcome and repetitions included
}

// Call is a call of a tool whose executions are counted.
type Call struct {
	Key    string // what an execution is counted under
	Effect schemas.Effect
}

// History is everything that [Check] looks at.
type History struct {
	Commands   []Command
	Logs       map[string][]schemas.Event // by session, verified
	Executions map[string]int             // by key
	// Counted says what a call's executions are counted under; false if they are not.
	Counted func(session string, start *schemas.ToolExecutionStart, key schemas.CallKey) (Call, bool)

	// Deleted are the sessions that were deleted meanwhile, and when that had ended last. What was sent to one before may
	// be lost; its log is that of the session that has begun anew, if it has.
	Deleted map[string]time.Time
	// Forgotten says whether a deleted session may have asked for the executions of a key, which no log knows then. It is
	// not nil where sessions were deleted.
	Forgotten func(key string) bool
}

func (h History) deleted(session string) bool { return !h.Deleted[session].IsZero() }

func (h History) forgotten(key string) bool { return h.Forgotten != nil && h.Forgotten(key) }

// Class is the promise that a violation breaks.
type Class string

// The classes of violations.
const (
	Lost    Class = "lost"    // an acknowledged command without an outcome
	Doubled Class = "doubled" // a command or a call that took effect twice
	Foreign Class = "foreign" // something that nobody sent or asked for
	Order   Class = "order"   // two commands in another order than their client sent them
	Shape   Class = "shape"   // a log that no run can have
	Result  Class = "result"  // a call without its one result, or with one that is not true
	Stuck   Class = "stuck"   // a session that is not at rest, or holds back what was sent
)

// Violation is a broken promise.
type Violation struct {
	Class    Class
	Session  string
	Seq      uint64   // of the event that shows it, 0 if there is none
	Commands []string // ids of those concerned
	What     string
}

// String names session, sequence and commands.
func (v Violation) String() string {
	at := v.Session
	if v.Seq > 0 {
		at = fmt.Sprintf("%s/%d", v.Session, v.Seq)
	}
	return fmt.Sprintf("%s: %s: %s [%s]", v.Class, at, v.What, strings.Join(v.Commands, " "))
}

// Check holds everything against the promises and returns what breaks them, by session and sequence. It takes the
// sessions for healed: nothing may be under way.
func Check(h History) []Violation {
	c := &checker{History: h, asked: map[string]bool{}}
	sent := map[string][]Command{}
	for _, cmd := range h.Commands {
		sent[cmd.Session] = append(sent[cmd.Session], cmd)
	}
	for session, cmds := range sent {
		c.session(session, cmds, h.Logs[session])
	}
	c.checkFamilies()
	for session, log := range h.Logs {
		if sent[session] == nil {
			c.report(Foreign, session, log[0].Seq, nil, "a log of a session to which nothing was sent")
		}
	}
	for key, n := range h.Executions {
		if !c.asked[key] && !h.forgotten(key) {
			c.report(Foreign, "", 0, []string{key}, "executed %d times, and no log has such a call", n)
		}
	}
	slices.SortFunc(c.found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.String(), b.String()))
	})
	return c.found
}

type checker struct {
	History
	asked map[string]bool // keys of the calls that the logs have
	found []Violation
}

func (c *checker) report(class Class, session string, seq uint64, commands []string, format string, args ...any) {
	c.found = append(c.found, Violation{class, session, seq, commands, fmt.Sprintf(format, args...)})
}

func (c *checker) session(session string, cmds []Command, log []schemas.Event) {
	s := &sessionCheck{checker: c, name: session, cmds: cmds, log: log, outcomes: map[string]*outcome{}}
	s.collect()
	s.checkOutcomes()
	if !s.deleted(session) { // what was sent again enters where nothing is from before
		s.checkOrder()
	}
	s.checkShape()
	s.checkCalls()
	s.checkRest()
}

// sessionCheck looks at one session.
type sessionCheck struct {
	*checker
	name     string
	cmds     []Command
	log      []schemas.Event
	outcomes map[string]*outcome // by command
}

func (s *sessionCheck) fail(class Class, seq uint64, commands []string, format string, args ...any) {
	s.report(class, s.name, seq, commands, format, args...)
}
