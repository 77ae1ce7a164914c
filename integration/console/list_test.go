//go:build unix

package console_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/schemas"
)

var manySessions = flag.Int("scroll.sessions", 10_000, "how many sessions TestScrollThroughAllSessions scrolls through")

// index answers for the sessions of a deployment that is made up: number n is the n-th newest, and each tenth is a
// sub-agent of the one after it. Where touched is set, session 1000 × touched has become the newest since.
type index struct {
	base    time.Time
	touched atomic.Int64
}

func (ix *index) session(n int) schemas.SessionSummary {
	s := schemas.SessionSummary{
		Session: fmt.Sprintf("s%06d", n), Seq: 20, Status: schemas.SessionIdle, Title: fmt.Sprintf("task %d", n),
		LastMessage: "That was all that there was to do.", Model: &schemas.ModelRef{Provider: "scripted", ID: "scripted"},
		Runs: 1, Turns: 2, Created: ix.base, LastActivity: ix.base.Add(-time.Duration(n) * time.Second),
	}
	if n%10 == 3 {
		s.Parent = &schemas.SessionParent{Session: fmt.Sprintf("s%06d", n+1), Seq: 9, CallID: "call_1"}
	}
	return s
}

// page is a page of them; a cursor is the number that it begins with.
func (ix *index) page(q schemas.SessionsQuery) schemas.SessionsPage {
	p := schemas.SessionsPage{Revision: 1}
	first, _ := strconv.Atoi(q.Cursor) // none is 0
	if first == 0 && ix.touched.Load() > 0 {
		n := int(ix.touched.Load()) * 1000
		s := ix.session(n)
		s.Seq, s.LastActivity, s.Title = 30, ix.base.Add(time.Duration(n)*time.Second), fmt.Sprintf("task %d again", n)
		p.Sessions = append(p.Sessions, s)
	}
	last := min(first+q.Limit, *manySessions)
	for n := first; n < last; n++ {
		p.Sessions = append(p.Sessions, ix.session(n))
	}
	if last < *manySessions {
		p.Next = strconv.Itoa(last)
	}
	return p
}

// serveIndex answers the queries of the list on a server of its own, and returns where its console is.
func serveIndex(t *testing.T, ix *index) (site string) {
	t.Helper()
	s, err := embedded.Start(embedded.Options{Listen: bustest.FreePort(t), StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	answer := func(subject string, f func(data []byte) any) {
		if err == nil {
			_, err = nc.Subscribe(subject, func(m *nats.Msg) {
				raw, err := json.Marshal(f(m.Data))
				if err == nil {
					err = m.Respond(raw)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	answer("agent.query.sessions", func(data []byte) any {
		var q schemas.SessionsQuery
		if err := json.Unmarshal(data, &q); err != nil {
			t.Error(err)
		}
		return ix.page(q)
	})
	answer("agent.query.approvals", func([]byte) any {
		return schemas.ApprovalsPage{Approvals: []schemas.PendingApproval{}}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return serveConsole(t, s.ClientURL())
}

// A user scrolls through many sessions to the last one. The list reads its pages on the way, and only visible rows are
// in the document. The page never blocks for long, not even while a session from far below becomes the newest.
func TestScrollThroughAllSessions(t *testing.T) {
	suite.LongForm(t)
	t.Parallel()
	needsBrowser(t)
	ix := &index{base: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}
	site := serveIndex(t, ix)
	page := newWindow(t)
	page.do(chromedp.Navigate(site + "/"))
	page.shows(".row", "task 0")
	before := page.use()
	eval[bool](page, frames)
	height := fmt.Sprintf("parseFloat(document.querySelector('.virtual ul').style.height) / %d", rowHeight)
	eval[bool](page, `(() => { const el = document.querySelector(".virtual");
		const step = () => { el.scrollTop += 20 * el.clientHeight;
			window.most_ = Math.max(window.most_ ?? 0, el.querySelectorAll("li").length);
			requestAnimationFrame(step); }; step(); return true; })()`)
	page.until("half of them are read", height+" >= "+itoa(*manySessions/2))
	touched := *manySessions / 1000 * 9 / 10 // thousands
	ix.touched.Store(int64(touched))         // which is not read yet
	page.until("all of them are read", height+" >= "+itoa(*manySessions))
	page.shows(".row", fmt.Sprintf("task %d", *manySessions-1))
	after := page.use()
	times := eval[[]float64](page, "frames_.sort((a, b) => a - b)")
	long := eval[[]float64](page, "long_.sort((a, b) => a - b)")
	t.Logf("%d sessions: %d frames, median %.1f ms, p99 %.1f ms; %d tasks over 50 ms, the longest %.0f ms; "+
		"%.1f s of the page's thread; heap %.1f MB", *manySessions, len(times), times[len(times)/2],
		times[len(times)*99/100], len(long), slices.Max(append(long, 0)), after.busy-before.busy, after.heap)
	if n := eval[int](page, "most_"); n > 100 {
		t.Errorf("%d rows were on the page", n)
	}
	// This is for what takes the square of the sessions, which is tens of seconds for a hundred thousand; a second is
	// what a busy machine adds.
	if len(long) > 0 && long[len(long)-1] > 8000 {
		t.Errorf("the page stood still for %.0f ms", long[len(long)-1])
	}
	if n := eval[int](page, height); n != *manySessions {
		t.Errorf("the list has %d rows", n)
	}
	page.do(chromedp.Reload())
	page.shows(".row", fmt.Sprintf("task %d000 again", touched))
}

// rowHeight is that of a row of the list, in pixels.
const rowHeight = 64
