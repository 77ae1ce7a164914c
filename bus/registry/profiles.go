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
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// Profiles holds the profiles in the bucket agent_profiles. It follows the bucket. All methods may be called
// concurrently.
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

// Profile returns the profile of a name. It waits until the bucket has been loaded, and until everything has been
// received that the leader of the bucket has for the name: a profile that was put before is in force, although what
// follows the bucket may have lost its server. If the leader does not answer, the profile of before counts. If the
// profile exists and cannot be decoded, Profile returns an error, because a typing mistake must not remove the limits
// of a session.
func (p *Profiles) Profile(ctx context.Context, name string) (schemas.Profile, error) {
	subject := "$KV." + schemas.BucketProfiles + "." + name
	last, found, err := natsio.Last(ctx, p.conn.JetStream(), "KV_"+schemas.BucketProfiles, subject)
	switch {
	case err != nil:
		p.log.Warn("it is not known whether the profile is current", "profile", name, "err", err)
	case found:
		if err := p.catchUp(ctx, last.Sequence); err != nil {
			return schemas.Profile{}, fmt.Errorf("registry: receive revision %d of profile %s: %w", last.Sequence, name, err)
		}
	}
	return p.received(ctx, name)
}

// received is [Profiles.Profile] of what has been received.
func (p *Profiles) received(ctx context.Context, name string) (schemas.Profile, error) {
	var n NamedProfile
	var known bool
	var others string
	err := p.wait(ctx, func() bool {
		if n, known = p.entries[name]; !known {
			others = namesOf(p.entries)
		}
		return true
	})
	if err != nil {
		return schemas.Profile{}, fmt.Errorf("registry: profile %s: %w", name, err)
	}
	if !known {
		hint := ""
		if p.keys.covered(name) {
			hint = "; in its place is an answer of a NATS server, which somebody had sent there: put the profile again"
		}
		return schemas.Profile{}, fmt.Errorf("profile %s: %w: the bucket %s has %s%s", name, p.none,
			schemas.BucketProfiles, others, hint)
	}
	if err := n.Err; err != nil {
		return schemas.Profile{}, fmt.Errorf("profile %s cannot be read (revision %d in the bucket %s): %w", name,
			n.Revision, schemas.BucketProfiles, err)
	}
	return n.Profile, nil
}

// maxNamed is how many profiles an error lists by name.
const maxNamed = 20

// namesOf returns the names of the profiles for an error, or how many there are.
func namesOf(entries map[string]NamedProfile) string {
	switch n := len(entries); {
	case n == 0:
		return "none"
	case n > maxNamed:
		return fmt.Sprintf("%d others", n)
	}
	return strings.Join(slices.Sorted(maps.Keys(entries)), ", ")
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
