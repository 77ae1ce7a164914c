package registry

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

// Profiles knows the named agents of the bucket agent_profiles. It follows the bucket, so asking costs no request. All
// methods may be called concurrently.
type Profiles struct {
	log    *slog.Logger
	none   error // what the error about an unknown name wraps
	close  func()
	loaded chan struct{}

	mu      sync.Mutex
	entries map[string]NamedProfile
}

// NamedProfile is an entry of the bucket. Err says why it cannot be read; Profile is then empty.
type NamedProfile struct {
	Name     string
	Revision uint64
	Profile  schemas.Profile
	Err      error
}

// NewProfiles starts to follow the profiles until [Profiles.Close]. c stays the caller's and has to outlive it; a nil
// logger discards. The error about a name that there is not wraps none.
func NewProfiles(c *bus.Conn, none error, log *slog.Logger) *Profiles {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	p := &Profiles{log: log, none: none, loaded: make(chan struct{})}
	p.close = followBucket(c, schemas.BucketProfiles, log, p.load, func(e entry) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.record(p.entries, e)
	})
	return p
}

// Close stops following. What is known stays known.
func (p *Profiles) Close() { p.close() }

// Profile returns the profile of that name. It waits for the first reading of the bucket. A profile that is there and
// cannot be read is an error too: one session's bounds must not depend on a typing mistake.
func (p *Profiles) Profile(ctx context.Context, name string) (schemas.Profile, error) {
	list, err := p.List(ctx)
	if err != nil {
		return schemas.Profile{}, fmt.Errorf("registry: profile %s: %w", name, err)
	}
	i := slices.IndexFunc(list, func(n NamedProfile) bool { return n.Name == name })
	if i < 0 {
		return schemas.Profile{}, fmt.Errorf("profile %s: %w: the bucket %s has %s", name, p.none, schemas.BucketProfiles,
			namesOf(list))
	}
	if err := list[i].Err; err != nil {
		return schemas.Profile{}, fmt.Errorf("profile %s cannot be read (revision %d in the bucket %s): %w", name,
			list[i].Revision,
			schemas.BucketProfiles, err)
	}
	return list[i].Profile, nil
}

func namesOf(list []NamedProfile) string {
	if len(list) == 0 {
		return "none"
	}
	names := make([]string, len(list))
	for i, n := range list {
		names[i] = n.Name
	}
	return strings.Join(names[:min(len(names), 20)], ", ")
}

// List returns all profiles, sorted by name. It waits for the first reading of the bucket.
func (p *Profiles) List(ctx context.Context) ([]NamedProfile, error) {
	select {
	case <-p.loaded:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]NamedProfile, 0, len(p.entries))
	for _, n := range p.entries {
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b NamedProfile) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// load replaces what is known.
func (p *Profiles) load(all []entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.entries = make(map[string]NamedProfile, len(all))
	for _, e := range all {
		p.record(p.entries, e)
	}
	select {
	case <-p.loaded:
	default:
		close(p.loaded)
	}
}

func (p *Profiles) record(entries map[string]NamedProfile, e entry) {
	if e.deleted {
		delete(entries, e.key)
		return
	}
	n := NamedProfile{Name: e.key, Revision: e.revision}
	n.Profile, n.Err = schemas.ParseProfile(e.value)
	if n.Err != nil {
		p.log.Warn("profile cannot be read", "profile", n.Name, "revision", n.Revision, "err", n.Err)
	}
	entries[n.Name] = n
}
