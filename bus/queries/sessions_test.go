package queries_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

const sessionsSubject = "agent.query.sessions"

// names are the sessions of a page.
func names(p schemas.SessionsPage) (ids []string) {
	for _, s := range p.Sessions {
		ids = append(ids, s.Session)
	}
	return ids
}

func TestSessionsAreFiltered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ix, _ := r.runner()
	r.session(ix, "done").run("p1", "List the FILES of Zürich", "there are two")
	r.session(ix, "busy").begin("p1", "count them")
	r.session(ix, "asks").begin("p1", "remove them").calls(`{"command":"rm"}`)
	failed := r.session(ix, "failed").begin("p1", "break")
	failed.say(&schemas.AgentEnd{TerminationReason: schemas.EndError, ErrorMessage: "no such model"})
	branch := &schemas.SessionBranched{Session: "done", Seq: 12, Messages: schemas.Messages{
		&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "copied"}}}}}
	r.session(ix, "copy").say(branch)
	whole(t, ix, 5)
	doneAt := r.clock
	for _, s := range ask[schemas.SessionsPage](r, sessionsSubject, "", "sessions_page").Sessions {
		if s.Session == "done" {
			doneAt = s.LastActivity
		}
	}
	for request, want := range map[string]string{
		``:                                     "copy failed asks busy done",
		`{}`:                                   "copy failed asks busy done",
		`{"status":["waiting_for_approval"]}`:  "asks",
		`{"status":["running","failed"]}`:      "failed busy",
		`{"profile":"reviewer"}`:               "failed asks busy done",
		`{"profile":"other"}`:                  "",
		`{"parent":"done"}`:                    "copy",
		`{"text":"files of zÜRICH"}`:           "done",
		`{"text":"THERE are two"}`:             "done",
		`{"text":"nowhere"}`:                   "",
		`{"text":"them","status":["running"]}`: "busy",
		`{"limit":2}`:                          "copy failed",
		`{"before":"` + doneAt.Add(time.Second).Format(time.RFC3339) + `"}`: "done",
		`{"after":"` + doneAt.Add(time.Second).Format(time.RFC3339) + `"}`:  "copy failed asks busy",
	} {
		got := ask[schemas.SessionsPage](r, sessionsSubject, request, "sessions_page")
		if all := strings.Join(names(got), " "); all != want || got.Revision == 0 || got.Partial {
			t.Errorf("%s: %q, want %q, revision %d, partial %v", request, all, want, got.Revision, got.Partial)
		}
	}
	top := ask[schemas.SessionsPage](r, sessionsSubject, `{"status":["failed"]}`, "sessions_page").Sessions[0]
	if top.Error != "no such model" || top.Title != "break" || top.Model.ID != "m-1" || top.Turns != 1 || top.Runs != 1 {
		t.Errorf("%+v", top)
	}
}

// A client that pages to the end has every session, in its order or, if it changed meanwhile, at the end; also where
// two runners answer by turns.
func TestPagingWhileSessionsChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ix, _ := r.runner()
	other, _ := r.runner()
	var all []*session
	for n := range 20 {
		all = append(all, r.session(ix, fmt.Sprintf("s%02d", n)).run("p1", fmt.Sprint("number ", n), "x"))
	}
	whole(t, ix, 20)
	whole(t, other, 20)
	for n, s := range all {
		reachesBoth(t, s.state.Seq, fmt.Sprintf("s%02d", n), ix, other)
	}
	seen := make(map[string]int)
	var order []string
	cursor, pages, first := "", 0, uint64(0)
	for {
		request, _ := json.Marshal(schemas.SessionsQuery{Limit: 3, Cursor: cursor})
		p := ask[schemas.SessionsPage](r, sessionsSubject, string(request), "sessions_page")
		if len(p.Sessions) > 3 {
			t.Fatalf("%d sessions on a page", len(p.Sessions))
		}
		for _, s := range p.Sessions {
			seen[s.Session]++
			order = append(order, s.Session)
		}
		if pages++; pages == 1 {
			first = p.Revision
		}
		if pages == 2 {
			all[2].run("p2", "again", "x")  // it moves to the front before its page
			all[19].run("p2", "again", "x") // its page is over
			r.session(ix, "new").run("p1", "new", "x")
			reachesBoth(t, all[2].state.Seq, "s02", ix, other)
			reachesBoth(t, all[19].state.Seq, "s19", ix, other)
			reachesBoth(t, 1, "new", ix, other)
		}
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	for n := range 20 {
		id := fmt.Sprintf("s%02d", n)
		want := 1
		if id == "s19" {
			want = 2 // on the first page, and again with its change
		}
		// The other runner may have written an entry anew that it thought was behind the log.
		again := seen[id] == 2 && ix.Get(id).Revision() > first
		if seen[id] != want && !again {
			t.Errorf("%s came %d times, want %d", id, seen[id], want)
		}
	}
	if seen["new"] != 1 {
		t.Errorf("the new one came %d times", seen["new"])
	}
	if last := order[len(order)-3:]; !slices.Contains(last, "new") || !slices.Contains(last, "s02") {
		t.Errorf("the last are %v", last)
	}
}

// A page fits a message, whatever was asked for.
func TestPagesFitMessages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ix, _ := r.runner()
	const n = 60
	for i := range n {
		r.session(nil, fmt.Sprintf("s%02d", i)).run("p1", strings.Repeat("𝄞", 1000), strings.Repeat("\\u0000 \" ", 1000))
	}
	whole(t, ix, n)
	q := fmt.Sprintf(`{"limit":%d}`, schemas.MaxQueryLimit)
	if p := ask[schemas.SessionsPage](r, sessionsSubject, q, "sessions_page"); len(p.Sessions) != n || p.Next != "" {
		t.Errorf("%d sessions, next %q", len(p.Sessions), p.Next)
	}
}

// A client that asks again with the revision of an answer gets each session that has changed since, whatever the clock
// of its runner said, and no other.
func TestSessionsThatHaveChanged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ix, _ := r.runner()
	var all []*session
	for n := range 5 {
		all = append(all, r.session(ix, fmt.Sprint("s", n)).run("p1", fmt.Sprint("number ", n), "x"))
	}
	whole(t, ix, 5)
	changed := func(after uint64) (ids []string, revision uint64) {
		t.Helper()
		for q := (schemas.SessionsQuery{Revision: after, Limit: 2}); ; {
			request, _ := json.Marshal(q)
			p := ask[schemas.SessionsPage](r, sessionsSubject, string(request), "sessions_page")
			ids = append(ids, names(p)...)
			if q.Cursor = p.Next; q.Cursor == "" {
				return ids, p.Revision
			}
		}
	}
	indexed := func() bool {
		return !slices.ContainsFunc(all, func(s *session) bool { return ix.Get(s.state.Session).Summary.Seq != s.state.Seq })
	}
	bustest.Eventually(t, "all is indexed", indexed)
	_, revision := changed(0)
	r.clock = r.clock.AddDate(-1, 0, 0)
	for _, n := range []int{3, 0, 1} {
		all[n].run("p2", "again", "x")
	}
	bustest.Eventually(t, "all changes are indexed", indexed)
	got, now := changed(revision)
	for n, s := range all {
		id := s.state.Session
		is := slices.Contains(got, id)
		twice := ix.Get(id).Revision() > revision // the index may write an entry again
		if want := n == 0 || n == 1 || n == 3; want && !is || is && !want && !twice {
			t.Errorf("%s is among the changed: %v", id, is)
		}
	}
	if now <= revision {
		t.Errorf("now at revision %d, before at %d", now, revision)
	}
}
