// Package panics turns panics of foreign code into errors, so that one session's hook, tool or model does not end the
// process and with it all other sessions.
package panics

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Error is a panic that [Guard] has recovered.
type Error struct {
	What  string // name of the code that panicked
	Value any
	Stack []byte // for logs; never in events
}

// Error names the code that panicked and the panic's value.
func (e *Error) Error() string { return fmt.Sprintf("%s panicked: %v", e.What, e.Value) }

// Guard runs f and returns f's error, or an [Error] if f panics. what names f.
func Guard(what string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Error{What: what, Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

// Log logs the stack of an [Error]; for any other error it does nothing.
func Log(log *slog.Logger, session string, err error) {
	if err == nil {
		return
	}
	var p *Error
	if errors.As(err, &p) {
		log.Error("panic contained", "session", session, "what", p.What, "value", p.Value, "stack", string(p.Stack))
	}
}
