package queries

import (
	"fmt"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/schemas"
)

// A page of the calls that wait is made without a copy of all of them, in every position.
func TestOldestKeepsFew(t *testing.T) {
	t.Parallel()
	const sessions, calls, most = 40, 25, 7
	var entries []*index.Entry
	for s := range sessions {
		e := new(index.Entry)
		for n := range calls {
			e.Waiting = append(e.Waiting, schemas.PendingApproval{Session: fmt.Sprint("s", s), Seq: uint64(n),
				Requested: time.UnixMilli(int64((s*7 + n*13) % 97))})
		}
		entries = append(entries, e)
	}
	var c cursor
	seen := map[string]bool{}
	var last schemas.PendingApproval
	for {
		page := oldest(entries, c, most)
		if cap(page) > 4*most {
			t.Fatalf("it has room for %d calls, for a page of %d", cap(page), most)
		}
		for _, a := range page {
			if id := fmt.Sprint(a.Session, "/", a.Seq); seen[id] || comparePending(last, a) > 0 {
				t.Fatalf("%s comes twice, or out of its order", id)
			} else {
				seen[id], last = true, a
			}
		}
		if len(page) < most {
			break
		}
		c = behindPending(1, last)
	}
	if len(seen) != sessions*calls {
		t.Errorf("%d calls, want %d", len(seen), sessions*calls)
	}
}
