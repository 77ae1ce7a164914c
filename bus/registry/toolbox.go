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
	"sync"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
)

// Toolbox knows the tools that workers announce in agent_tools. It follows the bucket, so asking costs no request. All
// methods may be called concurrently.
type Toolbox struct {
	log   *slog.Logger
	close func()

	mu      sync.Mutex
	loaded  bool
	entries map[string]schemas.ToolAnnouncement // by the bucket's key
	tools   []schemas.ToolDefinition            // made of entries when asked for; nil when they have changed
	changed chan struct{}                       // closed at the next change
}

// NewToolbox starts to follow the announcements until [Toolbox.Close]. c stays the caller's and has to outlive it; a
// nil logger discards.
func NewToolbox(c *bus.Conn, log *slog.Logger) *Toolbox {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t := &Toolbox{log: log, changed: make(chan struct{})}
	t.close = followBucket(c, schemas.BucketTools, log, func(all []entry) {
		known := make(map[string]schemas.ToolAnnouncement, len(all))
		for _, e := range all {
			t.record(known, e)
		}
		t.change(func() { t.entries, t.loaded = known, true })
	}, func(e entry) { t.change(func() { t.record(t.entries, e) }) })
	return t
}

// Close stops following. What is known stays known.
func (t *Toolbox) Close() { t.close() }

// Definitions returns one definition per tool and workspace, by name, those of no workspace first. Where workers
// announce different ones the highest version counts ([schemas.CompareToolVersions]), of one version the newest
// announcement, and among announcements of the same second that of the worker whose name comes first. It waits for the
// first reading of the bucket. The definitions' parts are shared and must not be changed.
func (t *Toolbox) Definitions(ctx context.Context) ([]schemas.ToolDefinition, error) {
	var tools []schemas.ToolDefinition
	err := t.wait(ctx, func() bool {
		if t.loaded && t.tools == nil {
			t.tools = newest(t.entries)
		}
		tools = slices.Clone(t.tools)
		return t.loaded
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
		return t.loaded
	})
	if err != nil {
		return nil, fmt.Errorf("registry: ask for the announcements: %w", err)
	}
	return all, nil
}

// Wait returns once all the named tools are announced. If ctx ends before, the error names those that are missing.
func (t *Toolbox) Wait(ctx context.Context, names ...string) error {
	var missing []string
	err := t.wait(ctx, func() bool {
		announced := map[string]bool{}
		for _, a := range t.entries {
			announced[a.Name] = true
		}
		missing = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return announced[name] })
		return t.loaded && len(missing) == 0
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
		return t.loaded
	})
	return queues, err
}

// wait calls ok, under the lock, now and at every change until it is true.
func (t *Toolbox) wait(ctx context.Context, ok func() bool) error {
	for {
		t.mu.Lock()
		done, changed := ok(), t.changed
		t.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
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

func (t *Toolbox) change(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
	t.tools = nil
	close(t.changed)
	t.changed = make(chan struct{})
}

// record puts an entry of the bucket into entries, or takes it out.
func (t *Toolbox) record(entries map[string]schemas.ToolAnnouncement, e entry) {
	if e.deleted {
		delete(entries, e.key)
		return
	}
	a, err := readAnnouncement(e.value)
	if key := schemas.AnnouncementKey(a.Queue().Name(), a.Worker); err == nil && key != e.key {
		err = fmt.Errorf("it is of %q", key) // a worker may announce only what its permissions name
	}
	if err == nil {
		err = a.Queue().Check()
	}
	if err == nil && !bytes.Equal(a.Parameters, entries[e.key].Parameters) { // a heartbeat changes nothing
		err = toolargs.Check(a.Parameters)
	}
	if err != nil {
		t.log.Warn("announcement ignored", "key", e.key, "err", err)
		delete(entries, e.key)
		return
	}
	entries[e.key] = a
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
