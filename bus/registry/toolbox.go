package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
)

// Toolbox knows the tools that workers announce in agent_tools. It follows the bucket, so asking costs no request. All
// methods may be called concurrently.
type Toolbox struct {
	*followed[schemas.ToolAnnouncement]
	tools []schemas.ToolDefinition // made of the entries when asked for
	until chan struct{}            // closed when they are made of entries of before
}

// NewToolbox starts to follow the announcements until [Toolbox.Close]. c stays the caller's and has to outlive it; a
// nil logger discards.
func NewToolbox(c *bus.Conn, log *slog.Logger) *Toolbox {
	return &Toolbox{followed: follow(c, reading[schemas.ToolAnnouncement]{bucket: schemas.BucketTools, read: read,
		log: cmp.Or(log, slog.New(slog.DiscardHandler))})}
}

// Follow calls f with the definitions, as of [Toolbox.Definitions], now and whenever announcements have changed, until
// ctx ends. Changes that come while f runs are one; a renewed announcement is a change that changes nothing. The
// definitions' parts are shared and must not be changed.
func (t *Toolbox) Follow(ctx context.Context, f func([]schemas.ToolDefinition)) {
	for {
		t.mu.Lock()
		changed := t.changed
		t.mu.Unlock()
		defs, err := t.Definitions(ctx)
		if err != nil {
			return // only because ctx ended
		}
		f(defs)
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Definitions returns one definition per tool and workspace, by name, those of no workspace first. Where workers
// announce different ones the highest version counts ([schemas.CompareToolVersions]), of one version the newest
// announcement, and among announcements of the same second that of the worker whose name comes first. It waits for the
// first reading of the bucket. The definitions' parts are shared and must not be changed.
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
		return nil, fmt.Errorf("registry: ask for the tools: %w", err)
	}
	return tools, nil
}

// Announcements returns what workers announce: by tool, version and workspace, and then by worker. It waits for the
// first reading of the bucket. The definitions' parts are shared and must not be changed.
func (t *Toolbox) Announcements(ctx context.Context) ([]schemas.ToolAnnouncement, error) {
	var all []schemas.ToolAnnouncement
	err := t.wait(ctx, func() bool {
		all = slices.SortedFunc(maps.Values(t.entries), func(a, b schemas.ToolAnnouncement) int {
			return cmp.Or(a.Queue().Compare(b.Queue()), cmp.Compare(a.Worker, b.Worker))
		})
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("registry: ask for the announcements: %w", err)
	}
	return all, nil
}

// Wait returns once all the named tools are announced. If ctx ends before, the error names those that are missing.
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
		return fmt.Errorf("registry: nobody announces %s: %w", strings.Join(missing, ", "), err)
	}
	return nil
}

// Announced returns the queues that somebody serves. It waits for the first reading of the bucket.
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

// newest returns one definition per tool and workspace, sorted.
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

// since is the zero time, the oldest there is, where the announcement gives none that can be read.
func since(a schemas.ToolAnnouncement) time.Time {
	at, _ := time.Parse(time.RFC3339, a.Since)
	return at
}

// read reads an entry of the bucket; before is what it said until now.
func read(e entry, before schemas.ToolAnnouncement) (schemas.ToolAnnouncement, error) {
	a, err := readAnnouncement(e.value)
	if key := schemas.AnnouncementKey(a.Queue().Name(), a.Worker); err == nil && key != e.key {
		err = fmt.Errorf("it is of %q", key) // a worker may announce only what its permissions name
	}
	if err == nil {
		err = a.Queue().Check()
	}
	if err == nil && !bytes.Equal(a.Parameters, before.Parameters) { // a heartbeat changes nothing
		err = toolargs.Check(a.Parameters)
	}
	return a, err
}

// readAnnouncement reads what a worker announces. It becomes part of the logs of sessions, so it has to keep to its
// schema, but for a moment that cannot be read, which is left out.
func readAnnouncement(value []byte) (a schemas.ToolAnnouncement, err error) {
	if err := json.Unmarshal(value, &a); err != nil {
		return a, err
	}
	checked := a
	if since(a).IsZero() {
		a.Since, checked.Since = "", time.Time{}.Format(time.RFC3339)
	}
	data, err := schemas.Marshal(checked)
	if err == nil {
		err = schemas.ValidateToolAnnouncement(data)
	}
	return a, err
}
