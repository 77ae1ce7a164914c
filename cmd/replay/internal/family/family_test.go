package family_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/cmd/replay/internal/family"
	"github.com/loopbus/loopbus/schemas"
)

// node is a session that was active at a second.
func node(id, parent string, seq uint64, at int64) *family.Node {
	n := &family.Node{SessionSummary: schemas.SessionSummary{Session: id, LastActivity: time.Unix(at, 0)}}
	if parent != "" {
		n.Parent = &schemas.SessionParent{Session: parent, Seq: seq}
	}
	return n
}

// shape is trees as text.
func shape(nodes []*family.Node) string {
	var all []string
	for _, n := range nodes {
		text := n.Session
		if len(n.Children) > 0 {
			text += "(" + shape(n.Children) + ")"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// TestTrees holds the order of trees and that every session is in one, once.
func TestTrees(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		nodes []*family.Node
		want  string
	}{
		{"nothing", nil, ""},
		{"by activity", []*family.Node{node("a", "", 0, 1), node("b", "", 0, 2)}, "b a"},
		{"by where they parted", []*family.Node{node("c", "a", 9, 3), node("b", "a", 3, 4), node("a", "", 0, 1),
			node("d", "c", 1, 1)}, "a(b c(d))"},
		{"a parent that is gone", []*family.Node{node("a", "gone", 1, 1), node("b", "a", 1, 1)}, "a(b)"},
		{"a circle", []*family.Node{node("c", "b", 1, 1), node("b", "a", 1, 1), node("a", "c", 1, 1), node("d", "c", 2, 1)},
			"a(b(c(d)))"},
		{"its own parent", []*family.Node{node("a", "a", 1, 1)}, "a"},
	} {
		if got := shape(family.Trees(c.nodes)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestOf holds that a session has its ancestors and its descendants, and not what else comes from its ancestors.
func TestOf(t *testing.T) {
	t.Parallel()
	parents := map[string]*schemas.SessionParent{"root": nil, "other": nil, "x": {Session: "y"}, "y": {Session: "x"}}
	for child, parent := range map[string]string{"a": "root", "b": "root", "a1": "a", "a2": "a", "a11": "a1"} {
		parents[child] = &schemas.SessionParent{Session: parent}
	}
	for session, want := range map[string]string{"a": "a a1 a11 a2 root", "root": "a a1 a11 a2 b root", "other": "other",
		"a11": "a a1 a11 root", "x": "x y"} {
		var got []string
		for id := range family.Of(session, parents) {
			got = append(got, id)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", session, got, want)
		}
	}
}
