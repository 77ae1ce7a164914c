package bridge

import (
	"errors"
	"fmt"
	"io"

	"github.com/loopbus/loopbus/bus/shares"
	"github.com/loopbus/loopbus/schemas"
)

const (
	// MaxHeld is how many bytes all requests of a bridge have together.
	MaxHeld = 64 << 20
	// MaxViewed is how many bytes all bridges of a process have together of the sessions that they show.
	MaxViewed = 512 << 20
	freely    = 16 << 10 // bytes of each request that do not count
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

// Hold is what one request holds of a [Budget], until it is released. It is not safe for concurrent use.
type Hold struct {
	of     *Budget
	caller string
	bytes  int
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
	if !r.by.resize(r.by.bytes + n) {
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
	if !h.resize(h.bytes + schemas.CountValues(text)*schemas.ValueBytes) {
		return fmt.Errorf("%s, decoded: %w", what, ErrFull)
	}
	return nil
}

// Part moves bytes of the hold to another one, for what outlives the request.
func (h *Hold) Part(bytes int) *Hold {
	part, before := &Hold{h.of, h.caller, min(bytes, h.bytes)}, h.counted()
	h.bytes -= part.bytes
	h.of.bytes.Release(h.caller, before-h.counted()-part.counted())
	return part
}

// Set holds so many bytes instead of what is held. It changes nothing and fails with [ErrFull] if there is no room.
func (h *Hold) Set(bytes int) error {
	if !h.resize(bytes) {
		return ErrFull
	}
	return nil
}

// Release releases what is held. Calling it again changes nothing, and nil holds nothing.
func (h *Hold) Release() {
	if h != nil {
		h.resize(0)
	}
}

// resize changes what is held. It changes nothing and returns false if there is no room.
func (h *Hold) resize(bytes int) bool {
	after := Hold{h.of, h.caller, bytes}
	more := after.counted() - h.counted()
	if more > 0 && !h.of.bytes.Take(h.caller, more) {
		return false
	}
	if more < 0 {
		h.of.bytes.Release(h.caller, -more)
	}
	h.bytes = bytes
	return true
}

func (h *Hold) counted() int {
	n := max(h.bytes-freely, 0)
	if h.of.most > 0 {
		n = min(n, h.of.most)
	}
	return n
}
