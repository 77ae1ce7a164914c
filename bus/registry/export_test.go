package registry

import "context"

// RepairKey repairs a key as a runner does that has received a value at a revision, the foreign entry cover after it,
// and nothing since.
func (p *Profiles) RepairKey(ctx context.Context, name string, revision, cover uint64) error {
	return p.repair(ctx, name, key{revision: revision, cover: cover, messages: 2})
}
