package registry

import (
	"maps"
	"sync"
)

// keepRevisions is how many messages a key may have before its outdated revisions are removed. A full key refuses
// further puts.
const keepRevisions = 16

// key is the known state of a key in a bucket.
type key struct {
	revision uint64 // of the last put or deletion by a client; 0 if there is none
	deleted  bool   // that revision is a deletion
	cover    uint64 // revision of the newest foreign entry after it; 0 if there is none
	messages int    // upper bound of the number of messages that are stored
}

// keys records the keys of a bucket, and which of them need a repair. A nil *keys records nothing. Its methods may be
// called concurrently.
type keys struct {
	found chan struct{} // has a token when a key may need a repair

	mu   sync.Mutex
	list map[string]key
}

func newKeys() *keys { return &keys{found: make(chan struct{}, 1), list: map[string]key{}} }

// reset forgets all keys, because the bucket is loaded again.
func (k *keys) reset() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.list)
}

// record records the next entry of the bucket.
func (k *keys) record(e entry) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.list[e.key]
	now.messages++
	if e.rollup {
		now.messages = 1
	}
	if e.foreign {
		now.cover = e.revision
	} else {
		now.revision, now.deleted, now.cover = e.revision, e.deleted, 0
	}
	k.list[e.key] = now
	if now.needsRepair() {
		select {
		case k.found <- struct{}{}:
		default:
		}
	}
}

// needsRepair reports whether a foreign entry covers the valid one, or the key has too many revisions.
func (k key) needsRepair() bool { return k.cover > 0 || k.messages > keepRevisions }

// damaged returns the keys that need a repair.
func (k *keys) damaged() map[string]key {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := maps.Clone(k.list)
	maps.DeleteFunc(list, func(_ string, state key) bool { return !state.needsRepair() })
	return list
}

// covered reports whether a foreign entry covers a key.
func (k *keys) covered(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.list[name].cover > 0
}

// repaired records that a key in the state was has been repaired: only its valid revision is left. It keeps what was
// recorded of the key in the meantime.
func (k *keys) repaired(name string, was key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, ok := k.list[name]
	if !ok {
		return
	}
	now.messages = max(now.messages-was.messages, 0) + 1
	if now.cover == was.cover {
		now.cover = 0
	}
	if k.list[name] = now; now.revision == 0 && now.cover == 0 {
		delete(k.list, name)
	}
}
