// Package history checks what happened against the promises: the commands that clients sent and their acknowledgements,
// the logs of the sessions, and the executions that tools counted.
package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Command is a command as its client recorded it. One client sends all commands of a session, in this order. It sends
// the next one once the last one was acknowledged or given up.
type Command struct {
	Session string
	ID      string
	Kind    schemas.CommandKind
	Text    string    // of an input
	Acked   time.Time // of the first acknowledgement; zero if there was none, and the command may be stored or not
	Sent    time.Time // first attempt
	Copies  int       // number of sends, including repetitions and attempts with an unknown outcome
}

// Call is a call of a tool whose executions are counted.
type Call struct {
	Key    string // of the call in History.Executions
	Effect schemas.Effect
}

// History is everything that [Check] checks.
type History struct {
	Commands   []Command
	Logs       map[string][]schemas.Event // by session, verified
	Executions map[string]int             // by key
	// Counted returns the key of a call in Executions; false if executions of the call are not counted.
	Counted func(session string, start *schemas.ToolExecutionStart, key schemas.CallKey) (Call, bool)

	// Deleted has the sessions that were deleted during the test, each with the time when its last deletion completed.
	// Commands that were sent before that time may be lost. The log of such a session, if it has one, was started again
	// after the deletion.
	Deleted map[string]time.Time
	// Forgotten reports whether a deleted session may have caused the executions of a key: then no log has the call. It
	// must be set if Deleted has sessions.
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
	Foreign Class = "foreign" // a command, message, result or execution in a log or count that no client caused
	Order   Class = "order"   // two commands in the log in a different order from the one in which they were sent
	Shape   Class = "shape"   // a log that no sequence of runs can produce
	Result  Class = "result"  // a call without exactly one result, or with a result that is false
	Stuck   Class = "stuck"   // a session that is not at rest, or an input that still waits in it
)

// Violation is a broken promise.
type Violation struct {
	Class    Class
	Session  string
	Seq      uint64   // of the event that shows it; 0 if no single event does
	Commands []string // ids of the commands, calls or sub-agents concerned
	What     string
}

// String returns class, session, sequence, text and ids.
func (v Violation) String() string {
	at := v.Session
	if v.Seq > 0 {
		at = fmt.Sprintf("%s/%d", v.Session, v.Seq)
	}
	return fmt.Sprintf("%s: %s: %s [%s]", v.Class, at, v.What, strings.Join(v.Commands, " "))
}

// Check returns all broken promises, sorted by session and sequence. It expects that all faults are over and all
// sessions are at rest: an unfinished run is a violation.
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
			c.report(Foreign, session, log[0].Seq, nil, "the session has a log, but no client sent it a command")
		}
	}
	for key, n := range h.Executions {
		if !c.asked[key] && !h.forgotten(key) {
			c.report(Foreign, "", 0, []string{key}, "executed %d times, but no log has a call with this key", n)
		}
	}
	slices.SortFunc(c.found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.String(), b.String()))
	})
	return c.found
}

type checker struct {
	History
	asked map[string]bool // keys of all counted calls in the logs
	found []Violation
}

func (c *checker) report(class Class, session string, seq uint64, commands []string, format string, args ...any) {
	c.found = append(c.found, Violation{class, session, seq, commands, fmt.Sprintf(format, args...)})
}

func (c *checker) session(session string, cmds []Command, log []schemas.Event) {
	s := &sessionCheck{checker: c, name: session, cmds: cmds, log: log, outcomes: map[string]*outcome{}}
	s.collect()
	s.checkOutcomes()
	if !s.deleted(session) { // after a deletion, repeated commands enter an empty log in any order
		s.checkOrder()
	}
	s.checkShape()
	s.checkCalls()
	s.checkRest()
}

// sessionCheck checks one session.
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
