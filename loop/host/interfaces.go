package host

import (
	"context"
	"errors"
	"iter"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// A SessionLog is a [driver.Log] that can also be read: what a [Host] needs to load a session.
//
// Read yields the events from sequence from (1 is the first) up to the head the log was opened at, in order; an error
// is the last thing yielded. Snapshot returns the newest state saved under the fold version, and the sequence it is
// of; seq is 0 if there is none. SaveSnapshot may fail without harm. Close releases what the log uses; it does not
// wait for appends.
type SessionLog interface {
	driver.Log
	Read(ctx context.Context, from uint64) iter.Seq2[schemas.Event, error]
	Snapshot(ctx context.Context, version int) (state []byte, seq uint64, err error)
	SaveSnapshot(ctx context.Context, version int, seq uint64, state []byte) error
	Close()
}

// OpenLog opens the log of a session at its head. A session that has no events yet opens empty.
type OpenLog func(ctx context.Context, session string) (SessionLog, error)

// A Toolbox has the definitions of the tools there are: one definition per tool and workspace. A model gets them in
// this order.
type Toolbox interface {
	Definitions(ctx context.Context) ([]schemas.ToolDefinition, error)
}

// Profiles are the named agents. Profile returns an error that wraps [ErrNoProfile] where there is none of
// that name.
type Profiles interface {
	Profile(ctx context.Context, name string) (schemas.Profile, error)
}

// Resources know what workspaces have for prompts; the empty name is that of sessions of no workspace. What there is
// nothing known of has nothing.
type Resources interface {
	Resources(ctx context.Context, workspace string) (schemas.Resources, error)
}

// ErrNoProfile says that there is no profile of a name.
var ErrNoProfile = errors.New("no such profile")
