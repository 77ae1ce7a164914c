package registry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// Toolbox holds the tools that workers announce in the bucket agent_tools. It follows the bucket, so reading them sends
// no request. All methods may be called concurrently.
type Toolbox struct {
	*followed[schemas.ToolAnnouncement]
	conn *bus.Conn
	// tools are the definitions that Definitions computed last. They are up to date while until is followed.changed.
	tools []schemas.ToolDefinition
	until chan struct{}
}

// NewToolbox follows the announcements until [Toolbox.Close]. The caller keeps ownership of c, which must outlive the
// Toolbox. A nil logger discards.
func NewToolbox(c *bus.Conn, log *slog.Logger) *Toolbox {
	return &Toolbox{conn: c, followed: follow(c, source[schemas.ToolAnnouncement]{bucket: schemas.BucketTools,
		decode: newDecoder().decode, log: cmp.Or(log, slog.New(slog.DiscardHandler))})}
}

// Follow calls f with the result of [Toolbox.Definitions], at once and after every change of the announcements, until
// ctx ends. Changes during a call of f lead to one further call. A renewed announcement is a change too, although the
// definitions stay the same. f must not modify the parts of the definitions.
func (t *Toolbox) Follow(ctx context.Context, f func([]schemas.ToolDefinition)) {
	for {
		t.mu.Lock()
		changed := t.changed
		t.mu.Unlock()
		defs, err := t.Definitions(ctx)
		if err != nil {
			return // ctx ended
		}
		f(defs)
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Definitions returns one definition per tool and workspace, sorted by name and workspace; a tool without a workspace
// comes first. If workers announce different definitions, the highest version counts ([schemas.CompareToolVersions]),
// within a version the newest announcement, and within the same second that of the worker whose name sorts first. It
// waits until the bucket has been loaded. The caller must not modify the parts of the definitions.
func (t *Toolbox) Definitions(ctx context.Context) ([]schemas.ToolDefinition, error) {
	var tools []schemas.ToolDefinition
	err := t.wait(ctx, func() bool {
		if t.until != t.changed {
			t.tools, t.until = newest(t.entries), t.changed
		}
		tools = slices.Clone(t.tools)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("registry: wait for the definitions of tools: %w", err)
	}
	return tools, nil
}

// catchUpTimeout bounds [Toolbox.CatchUp].
const catchUpTimeout = time.Second

// CatchUp returns nil once the toolbox contains everything that was announced before the call. It waits for one second
// at most, and returns an error if that is not certain by then. It sends one request.
//
// An announcement is stored in the bucket some milliseconds before followers of the bucket receive it. A client that
// announces tools and then sends a prompt that needs them relies on CatchUp.
func (t *Toolbox) CatchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	last, ok, err := natsio.Last(ctx, t.conn.JetStream(), "KV_"+schemas.BucketTools, "$KV."+schemas.BucketTools+".>")
	if err == nil && ok {
		err = t.catchUp(ctx, last.Sequence)
	}
	if err != nil {
		return fmt.Errorf("registry: catch up with the newest announcement: %w", err)
	}
	return nil
}

// Announcements returns all announcements, sorted by queue (tool, version and workspace) and worker. It waits until the
// bucket has been loaded. The caller must not modify the parts of the definitions.
func (t *Toolbox) Announcements(ctx context.Context) ([]schemas.ToolAnnouncement, error) {
	var all []schemas.ToolAnnouncement
	err := t.wait(ctx, func() bool {
		all = slices.SortedFunc(maps.Values(t.entries), func(a, b schemas.ToolAnnouncement) int {
			return cmp.Or(a.Queue().Compare(b.Queue()), cmp.Compare(a.Worker, b.Worker))
		})
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("registry: wait for the announcements: %w", err)
	}
	return all, nil
}

// Wait returns nil once all named tools are announced. If ctx ends before, the error names the missing ones.
func (t *Toolbox) Wait(ctx context.Context, names ...string) error {
	missing := names
	err := t.wait(ctx, func() bool {
		announced := map[string]bool{}
		for _, a := range t.entries {
			announced[a.Name] = true
		}
		missing = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return announced[name] })
		return len(missing) == 0
	})
	if err != nil {
		return fmt.Errorf("registry: no worker announces %s: %w", strings.Join(missing, ", "), err)
	}
	return nil
}

// Announced returns the queues that at least one worker serves. It waits until the bucket has been loaded.
func (t *Toolbox) Announced(ctx context.Context) (map[schemas.ToolQueue]bool, error) {
	queues := map[schemas.ToolQueue]bool{}
	err := t.wait(ctx, func() bool {
		for _, a := range t.entries {
			queues[a.Queue()] = true
		}
		return true
	})
	return queues, err
}

// newest returns one definition per tool and workspace, in the order of [Toolbox.Definitions].
func newest(entries map[string]schemas.ToolAnnouncement) []schemas.ToolDefinition {
	all := slices.SortedFunc(maps.Values(entries), func(a, b schemas.ToolAnnouncement) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Workspace, b.Workspace),
			schemas.CompareToolVersions(b.Version, a.Version), since(b).Compare(since(a)), cmp.Compare(a.Worker, b.Worker))
	})
	tools := []schemas.ToolDefinition{}
	for _, a := range all {
		if n := len(tools); n == 0 || tools[n-1].Name != a.Name || tools[n-1].Workspace != a.Workspace {
			tools = append(tools, a.ToolDefinition)
		}
	}
	return tools
}

// since returns the time of an announcement, or the zero time, which sorts as the oldest, if it cannot be parsed.
func since(a schemas.ToolAnnouncement) time.Time {
	at, _ := time.Parse(time.RFC3339, a.Since)
	return at
}
