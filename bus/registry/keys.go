package registry

import (
	"maps"
	"sync"
)

// keepRevisions is how many messages a key may have before those are removed that no longer count.
const keepRevisions = 16

// key is what a bucket has on a key, as far as it has been followed.
type key struct {
	said     uint64 // revision of what somebody has put or deleted last; 0 where there is none
	deleted  bool   // that is a deletion
	over     uint64 // revision of the newest answer of a server behind it; 0 where there is none
	messages int    // at most; the bucket may have fewer
}

// keys are the keys of a bucket, and which of them need something. A nil one takes in nothing. Its methods may be
// called concurrently.
type keys struct {
	found chan struct{} // has a token when a key may need something

	mu   sync.Mutex
	list map[string]key
}

func newKeys() *keys { return &keys{found: make(chan struct{}, 1), list: map[string]key{}} }

// reset forgets all: the bucket is read again.
func (k *keys) reset() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.list)
}

// take takes in the next entry of the bucket.
func (k *keys) take(e entry) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.list[e.key]
	now.messages++
	if e.alone {
		now.messages = 1
	}
	if e.foreign {
		now.over = e.revision
	} else {
		now.said, now.deleted, now.over = e.revision, e.deleted, 0
	}
	k.list[e.key] = now
	if now.needs() {
		select {
		case k.found <- struct{}{}:
		default:
		}
	}
}

// needs reports whether something lies over what counts, or too much before it.
func (k key) needs() bool { return k.over > 0 || k.messages > keepRevisions }

// needing returns the keys that need something.
func (k *keys) needing() map[string]key {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := maps.Clone(k.list)
	maps.DeleteFunc(list, func(_ string, of key) bool { return !of.needs() })
	return list
}

// over reports whether an answer of a server lies over a key.
func (k *keys) over(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.list[name].over > 0
}

// mended says that a key is as it was taken to be, without what lay over it or before it. What has come meanwhile
// stays.
func (k *keys) mended(name string, was key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, ok := k.list[name]
	if !ok {
		return
	}
	now.messages = max(now.messages-was.messages, 0) + 1
	if now.over == was.over {
		now.over = 0
	}
	if k.list[name] = now; now.said == 0 && now.over == 0 {
		delete(k.list, name)
	}
}
