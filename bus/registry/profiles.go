package registry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

// Profiles holds the profiles in the bucket agent_profiles. It follows the bucket, so reading a profile sends no
// request. All methods may be called concurrently.
type Profiles struct {
	*followed[NamedProfile]
	none error // wrapped by the error about an unknown name
	conn *bus.Conn
	log  *slog.Logger
	keys *keys
}

// NamedProfile is an entry of the bucket. If it cannot be decoded, Err is the reason and Profile is empty.
type NamedProfile struct {
	Name     string
	Revision uint64
	Profile  schemas.Profile
	Err      error
}

// NewProfiles follows the profiles until [Profiles.Close]. The caller keeps ownership of c, which must outlive the
// Profiles. A nil logger discards. The error of [Profiles.Profile] about an unknown name wraps none.
func NewProfiles(c *bus.Conn, none error, log *slog.Logger) *Profiles {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	p := &Profiles{none: none, conn: c, log: log, keys: newKeys()}
	p.followed = follow(c, source[NamedProfile]{bucket: schemas.BucketProfiles, log: log, keys: p.keys,
		decode: func(e entry, _ NamedProfile) (NamedProfile, error) {
			n := NamedProfile{Name: e.key, Revision: e.revision}
			if n.Profile, n.Err = schemas.ParseProfile(e.value); n.Err != nil {
				log.Warn("profile cannot be read", "profile", n.Name, "revision", n.Revision, "err", n.Err)
			}
			return n, nil
		}})
	return p
}

// Profile returns the profile of a name. It waits until the bucket has been loaded. If the profile exists and cannot be
// decoded, Profile returns an error, because a typing mistake must not remove the limits of a session.
func (p *Profiles) Profile(ctx context.Context, name string) (schemas.Profile, error) {
	list, err := p.List(ctx)
	if err != nil {
		return schemas.Profile{}, fmt.Errorf("registry: profile %s: %w", name, err)
	}
	i := slices.IndexFunc(list, func(n NamedProfile) bool { return n.Name == name })
	if i < 0 {
		hint := ""
		if p.keys.covered(name) {
			hint = "; in its place is an answer of a NATS server, which somebody had sent there: put the profile again"
		}
		return schemas.Profile{}, fmt.Errorf("profile %s: %w: the bucket %s has %s%s", name, p.none,
			schemas.BucketProfiles, namesOf(list), hint)
	}
	if err := list[i].Err; err != nil {
		return schemas.Profile{}, fmt.Errorf("profile %s cannot be read (revision %d in the bucket %s): %w", name,
			list[i].Revision, schemas.BucketProfiles, err)
	}
	return list[i].Profile, nil
}

// namesOf returns the names of the first 20 profiles of a list for an error.
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

// List returns all profiles, sorted by name. It waits until the bucket has been loaded.
func (p *Profiles) List(ctx context.Context) (list []NamedProfile, err error) {
	err = p.wait(ctx, func() bool {
		list = slices.SortedFunc(maps.Values(p.entries),
			func(a, b NamedProfile) int { return strings.Compare(a.Name, b.Name) })
		return true
	})
	return list, err
}
