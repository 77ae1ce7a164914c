package bridge

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/loopbus/loopbus/bus/shares"
	"github.com/loopbus/loopbus/schemas"
)

const (
	// MaxHeld is how many bytes all requests of a bridge have together.
	MaxHeld = 64 << 20
	// MaxViewed is how many bytes all bridges of a process have together of the sessions that they show.
	MaxViewed = 512 << 20
	freely    = 16 << 10 // bytes of each request that do not count
	// loaded is how often a payload of the object store is in memory until it is shown: as it was loaded, decoded, and
	// encoded in two steps.
	loaded = 4
)

// ErrFull is the error of a request for which a [Budget] has no room. It may be sent again later.
var ErrFull = errors.New("what is in progress has too many bytes together: send the request again later")

// Budget bounds the memory of all requests that clients of a bridge have sent and that have no answer yet, or of what
// bridges show: each may be large, and hundreds of clients may send one. The first 16 KiB of each do not count, so
// that large requests keep no small ones out.
type Budget struct {
	bytes  *shares.Shares
	values int
	most   int // more bytes of one hold do not count; 0 for no such limit
}

// NewBudget returns a budget of so many bytes, for requests with at most so many JSON values each, as
// [schemas.CountValues] counts.
func NewBudget(bytes, values int) *Budget { return &Budget{shares.New(bytes), values, 0} }

// NewViews returns a budget of so many bytes for what bridges show; the callers are sessions. A session that alone has
// more can be shown to one client, while no other large one is.
func NewViews(bytes int) *Budget { return &Budget{shares.New(bytes), 0, bytes / 2} }

// Hold returns what a request holds: nothing at first. All requests of a caller together hold no more than they leave
// to others, unless the caller is "".
func (b *Budget) Hold(caller string) *Hold { return &Hold{of: b, caller: caller} }

// Hold is what one request holds of a [Budget], until it is released. Only Load may be called beside other methods.
type Hold struct {
	of     *Budget
	caller string
	mu     sync.Mutex
	bytes  int
	loads  int // bytes of payloads besides
}

// ReadAll reads what the request has sent, and holds it. It fails with [ErrFull] as soon as there is no room for it.
func (h *Hold) ReadAll(r io.Reader) ([]byte, error) { return io.ReadAll(held{r, h}) }

type held struct {
	io.Reader
	by *Hold
}

// Read implements [io.Reader].
func (r held) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if !r.by.add(n, 0) {
		return 0, ErrFull
	}
	return n, err
}

// Decoded holds what JSON that was read will take once it is decoded. It fails if that has too many values, or with
// [ErrFull].
func (h *Hold) Decoded(what string, text []byte) error {
	if err := schemas.CheckValues(what, text, h.of.values); err != nil {
		return err
	}
	if !h.add(schemas.CountValues(text)*schemas.ValueBytes, 0) {
		return fmt.Errorf("%s, decoded: %w", what, ErrFull)
	}
	return nil
}

// Part moves bytes of the hold to another one, for what outlives the request.
func (h *Hold) Part(bytes int) *Hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	part := &Hold{of: h.of, caller: h.caller, bytes: min(bytes, h.bytes)}
	before := h.of.counted(h.bytes + h.loads)
	h.bytes -= part.bytes
	h.of.bytes.Release(h.caller, before-h.of.counted(h.bytes+h.loads)-h.of.counted(part.bytes))
	return part
}

// Set holds so many bytes instead of what is held. It changes nothing and fails with [ErrFull] if there is no room.
func (h *Hold) Set(bytes int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.hold(bytes, h.loads) {
		return ErrFull
	}
	return nil
}

// Load is a [client.Room]: besides what is held, it holds what a payload takes until it is shown.
func (h *Hold) Load(bytes int) (release func(), err error) {
	if !h.add(0, loaded*bytes) {
		return nil, fmt.Errorf("an event of %d bytes: %w", bytes, ErrFull)
	}
	return func() { h.add(0, -loaded*bytes) }, nil
}

// Show is like Load for one who has only what is shown, and holds that after Show with Set: it is held instead.
func (h *Hold) Show(bytes int) (release func(), err error) {
	if err := h.Set(loaded * bytes); err != nil {
		return nil, fmt.Errorf("an event of %d bytes: %w", bytes, err)
	}
	return h.Release, nil
}

// Release releases what is held. Calling it again changes nothing, and nil holds nothing.
func (h *Hold) Release() {
	if h != nil {
		_ = h.Set(0) // less has always room
	}
}

// add adds to what is held, or takes off. It changes nothing and returns false if there is no room.
func (h *Hold) add(bytes, loads int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hold(h.bytes+bytes, h.loads+loads)
}

// hold changes what is held. It changes nothing and returns false if there is no room. The caller holds the lock.
func (h *Hold) hold(bytes, loads int) bool {
	more := h.of.counted(bytes+loads) - h.of.counted(h.bytes+h.loads)
	if more > 0 && !h.of.bytes.Take(h.caller, more) {
		return false
	}
	if more < 0 {
		h.of.bytes.Release(h.caller, -more)
	}
	h.bytes, h.loads = bytes, loads
	return true
}

// counted returns how many bytes of a hold count.
func (b *Budget) counted(bytes int) int {
	n := max(bytes-freely, 0)
	if b.most > 0 {
		n = min(n, b.most)
	}
	return n
}
