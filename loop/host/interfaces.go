package host

import (
	"context"
	"errors"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// A SessionLog is a [driver.Log] that can also be read, which a [Host] needs to load a session.
//
// Snapshot returns the newest state saved under the fold version and the state's sequence, which is 0 if there is none.
// SaveSnapshot may fail without harm. Close releases what the log uses and does not wait for appends.
type SessionLog interface {
	driver.Log
	Snapshot(ctx context.Context, version int) (state []byte, seq uint64, err error)
	SaveSnapshot(ctx context.Context, version int, seq uint64, state []byte) error
	Close()
}

// OpenLog opens the log of a session at its head. The log of a session without events opens empty.
type OpenLog func(ctx context.Context, session string) (SessionLog, error)

// A Toolbox has the definitions of the announced tools, one for each tool and workspace, in the order in which a model
// gets them.
type Toolbox interface {
	Definitions(ctx context.Context) ([]schemas.ToolDefinition, error)
}

// Profiles are the named agents. Profile returns an error that wraps [ErrNoProfile] if there is none of that name.
type Profiles interface {
	Profile(ctx context.Context, name string) (schemas.Profile, error)
}

// Resources returns what a workspace provides for prompts. The empty name is the workspace of sessions that have none;
// an unknown workspace provides nothing.
type Resources interface {
	Resources(ctx context.Context, workspace string) (schemas.Resources, error)
}

// ErrNoProfile means that there is no profile of a name.
var ErrNoProfile = errors.New("no such profile")
