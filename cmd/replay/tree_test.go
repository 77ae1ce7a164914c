package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// child writes a session that was branched from another one.
func (w *world) child(session, of string, seq uint64, more ...schemas.EventData) {
	w.t.Helper()
	all := append([]schemas.EventData{&schemas.SessionBranched{Session: of, Seq: seq, Messages: schemas.Messages{
		&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "title of " + session}}}}}}, more...)
	w.writer(session).append(all...)
}

// TestTree holds what tree prints of all sessions and of one, from a server and from a store.
func TestTree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agentSession()
	w.branchSession()
	w.child("early", "agent", 4)
	w.child("late", "agent", 20, &schemas.Name{Name: "a \x1bname"})
	w.child("deep", "branch", 9)
	w.child("orphan", "deleted", 3)
	w.serviceSession()
	got := w.replay("tree")
	if got.code != cli.StatusOK || got.stderr != "" {
		t.Errorf("%d, %s", got.code, got.stderr)
	}
	golden(t, "tree", got.stdout)
	one := w.replay("tree", "branch")
	golden(t, "tree-one", one.stdout)
	golden(t, "tree-json", w.replay("tree", "branch", "--json").stdout)
	if got := w.replay("tree", "nobody"); got.code != cli.StatusBad || !strings.Contains(got.stderr, "nobody has no log") {
		t.Errorf("%+v", got)
	}
	if got := w.replay("tree", "a", "b"); got.code != cli.StatusUsage {
		t.Errorf("%+v", got)
	}
	w.stop()
	if got := invoke(t, nil, "tree", "branch", "--store", w.dir); got.code != cli.StatusOK || got.stdout != one.stdout {
		t.Errorf("from a store: %+v", got)
	}
}

// TestTreeWithADamagedLog holds that the others are shown, and that the damage is told.
func TestTreeWithADamagedLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agentSession()
	w.child("good", "agent", 7)
	w.child("bad", "agent", 7, &schemas.Name{Name: "x"})
	w.forge("bad", 7, "")
	got := w.replay("tree")
	if got.code != cli.StatusBad || !strings.Contains(got.stdout, "─ good") ||
		!strings.Contains(got.stdout, "damaged") || !strings.Contains(got.stderr, "session bad") {
		t.Errorf("%+v", got)
	}
}

// BenchmarkTree prints ten levels of a hundred children: a thousand sessions, each level the children of one session of
// the level above.
func BenchmarkTree(b *testing.B) {
	w := newWorld(b)
	parent := "root"
	w.child(parent, "nobody", 1)
	for level := range 10 {
		for i := range 100 {
			w.child(fmt.Sprintf("s-%d-%02d", level, i), parent, 1)
		}
		parent = fmt.Sprintf("s-%d-%02d", level, 50)
	}
	env := map[string]string{"LOOPBUS_NATS": w.server.ClientURL()}
	for _, args := range [][]string{{"tree"}, {"tree", "root"}, {"tree", parent}, {"tree", "--json"}} {
		b.Run(strings.Join(args, " "), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var out strings.Builder
				if code := run(b.Context(), args, outside(env, &out, os.Stderr)); code != 0 {
					b.Fatalf("exit status %d", code)
				}
				if args[0] == "tree" && len(args) == 1 && strings.Count(out.String(), "\n") != 1002 {
					b.Fatalf("%d lines", strings.Count(out.String(), "\n"))
				}
			}
		})
	}
}

// TestTreesAreJSON holds that the objects have what lists have of a session.
func TestTreesAreJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agentSession()
	w.child("c", "agent", 7)
	var root struct {
		Session  string
		Turns    int
		Children []struct {
			Session string
			Parent  schemas.SessionParent
		}
	}
	if err := json.Unmarshal([]byte(w.replay("tree", "--json").stdout), &root); err != nil {
		t.Fatal(err)
	}
	if root.Session != "agent" || root.Turns != 3 || len(root.Children) != 1 || root.Children[0].Session != "c" ||
		root.Children[0].Parent != (schemas.SessionParent{Session: "agent", Seq: 7}) {
		t.Errorf("%+v", root)
	}
}
