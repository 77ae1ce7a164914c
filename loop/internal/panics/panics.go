// Package panics turns panics of foreign code into errors, so that one session's hook, tool or model does not end the
// process and with it every other session.
package panics

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Error is a panic that [Guard] has recovered.
type Error struct {
	What  string // what panicked
	Value any
	Stack []byte // for logs; never in events
}

// Error names what panicked and with what value.
func (e *Error) Error() string { return fmt.Sprintf("%s panicked: %v", e.What, e.Value) }

// Guard runs f and returns f's error. A panic of f is an [Error]; what names f.
func Guard(what string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Error{What: what, Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

// Log writes the stack of an error that is an [Error], and does nothing with any other.
func Log(log *slog.Logger, session string, err error) {
	if err == nil {
		return
	}
	var p *Error
	if errors.As(err, &p) {
		log.Error("panic contained", "session", session, "what", p.What, "value", p.Value, "stack", string(p.Stack))
	}
}
