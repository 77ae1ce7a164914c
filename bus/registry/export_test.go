package registry

import "context"

// RepairKey puts a key in order as one does who has seen of it a value, at the revision said, and an answer of a server
// behind that, and nothing since.
func (p *Profiles) RepairKey(ctx context.Context, name string, said, over uint64) error {
	return p.repair(ctx, name, key{said: said, over: over, messages: 2})
}
