package sessionfile_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/loop/compaction"
	"github.com/loopbus/loopbus/sessionfile"
)

type result map[string]any

// do plays one step and returns its result.
func (st *stage) do(t *testing.T, given step) (any, error) {
	t.Helper()
	s := st.s
	switch given.Do {
	case "header":
		return s.Header(), nil
	case "entries":
		return s.Entries(), nil
	case "leaf":
		return orNull(s.Leaf()), nil
	case "name":
		return orNull(s.Name()), nil
	case "context":
		leaf := s.Leaf()
		if given.Leaf != nil {
			leaf = ""
			_ = json.Unmarshal(given.Leaf, &leaf)
		}
		return s.Context(leaf), nil
	case "path":
		if given.ID == "" {
			given.ID = s.Leaf()
		}
		return ids(s.Path(given.ID)), nil
	case "children":
		return ids(s.Children(given.ID)), nil
	case "tree":
		return nodes(s.Tree()), nil
	case "label":
		if l := s.Label(given.ID); l != nil {
			return l.Label, nil
		}
		return nil, nil
	case "file":
		return st.file(t), nil
	case "files":
		return st.files(t), nil
	case "branch":
		return nil, s.Branch(given.ID)
	case "reset":
		s.Reset()
		return nil, nil
	case "extract", "newSession", "reopen", "forkFrom", "fork":
		return st.replace(t, given)
	case "navigate":
		return st.navigate(t, given)
	}
	return st.append(t, given)
}

// append appends an entry as a child of the leaf.
func (st *stage) append(t *testing.T, given step) (any, error) {
	t.Helper()
	s := st.s
	sum := sessionfile.Summary{Text: given.Summary, Details: given.Details, FromHook: given.FromHook}
	var id string
	var err error
	switch given.Do {
	case "message":
		id, err = s.AppendMessage(given.Message)
	case "thinking":
		id, err = s.AppendThinkingLevel(given.Level)
	case "model":
		id, err = s.AppendModel(sessionfile.Model{Provider: given.Provider, ModelID: given.ModelID})
	case "compaction":
		id, err = s.AppendCompaction(sum, given.FirstKeptEntryID, given.TokensBefore)
	case "custom":
		id, err = s.AppendCustom(given.CustomType, given.Data)
	case "customMessage":
		id, err = s.AppendCustomMessage(given.CustomType, given.Content, given.Display, given.Details)
	case "info":
		id, err = s.AppendName(given.Name)
	case "setLabel":
		id, err = s.AppendLabel(given.ID, given.Label)
	case "branchWithSummary":
		id, err = s.BranchWithSummary(given.ID, sum)
	default:
		t.Fatalf("unknown step %q", given.Do)
	}
	return id, err
}

// replace plays a step that continues with another session.
func (st *stage) replace(t *testing.T, given step) (r any, err error) {
	t.Helper()
	next := st.s
	switch given.Do {
	case "extract":
		if next, err = st.s.Extract(given.ID); err == nil {
			r = orNull(next.File())
		}
	case "newSession":
		next = st.s.Next(given.Options.ID, given.Options.ParentSession)
		r = orNull(next.File())
	case "reopen":
		next, err = sessionfile.Open(st.s.File(), st.now)
	case "forkFrom":
		next, err = sessionfile.ForkFrom(st.s.File(), given.CWD, st.n.dir, st.now)
	case "fork":
		var text *string
		next, text, err = st.s.Fork(given.ID, sessionfile.Position(given.Position))
		forked := result{"cancelled": false}
		if text != nil {
			forked["selectedText"] = *text
		}
		r = forked
	}
	if err != nil {
		return nil, err
	}
	st.s = next
	return r, nil
}

// navigate moves to another entry of the tree as pi's application does.
func (st *stage) navigate(t *testing.T, given step) (any, error) {
	t.Helper()
	s := st.s
	if given.ID == s.Leaf() {
		return result{"cancelled": false, "leaf": orNull(s.Leaf()), "requests": []any{}}, nil
	}
	leaf, text, err := s.Target(given.ID)
	if err != nil {
		return nil, err
	}
	r := result{"cancelled": false}
	if text != nil {
		r["editorText"] = *text
	}
	asked := []any{}
	left, _ := compaction.Left(parents(s), s.Leaf(), given.ID)
	labelled := given.ID
	if given.Summarize && len(left) > 0 {
		sum, requests, err := st.summarize(t, given, left)
		asked = requests
		if errors.Is(err, compaction.ErrAborted) {
			return result{"cancelled": true, "aborted": true, "leaf": orNull(s.Leaf()), "requests": asked}, nil
		}
		if err != nil {
			return nil, err
		}
		if labelled, err = s.BranchWithSummary(leaf, sum); err != nil {
			return nil, err
		}
		r["summaryEntry"] = s.Entry(labelled)
	} else if s.Reset(); leaf != "" {
		if err := s.Branch(leaf); err != nil {
			return nil, err
		}
	}
	if given.Label != nil && *given.Label != "" {
		if _, err := s.AppendLabel(labelled, given.Label); err != nil {
			return nil, err
		}
	}
	r["leaf"], r["messages"], r["requests"] = orNull(s.Leaf()), len(s.Context(s.Leaf()).Messages), asked
	return r, nil
}

// summarize requests the summary of the branch that is left.
func (st *stage) summarize(t *testing.T, given step, left []string) (sessionfile.Summary, []any, error) {
	t.Helper()
	m := newMessages(t)
	var entries []compaction.Entry
	for _, id := range left {
		entries = append(entries, m.entry(st.s.Entry(id)))
	}
	options := caseOptions{given.CustomInstructions, given.ReplaceInstructions, 0}
	text, lists, requests, err := summarizeBranch(t, entries, caseModel{}, options, given.Replies)
	if errors.Is(err, compaction.ErrNoContent) {
		text, lists, err = err.Error(), compaction.NewFiles().Lists(), nil // as pi does
	}
	fromHook := false
	return sessionfile.Summary{Text: text, Details: marshal(t, lists), FromHook: &fromHook}, requests, err
}

func parents(s *sessionfile.Session) func(string) (string, bool) {
	return func(id string) (string, bool) {
		e := s.Entry(id)
		if e == nil {
			return "", false
		}
		if p := s.Parent(e); p != nil {
			return p.ID, true
		}
		return "", true
	}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func ids(entries []*sessionfile.Entry) []string {
	list := []string{}
	for _, e := range entries {
		list = append(list, e.ID)
	}
	return list
}

func nodes(tree []*sessionfile.Node) []any {
	list := []any{}
	for _, n := range tree {
		r := result{"id": n.Entry.ID, "type": n.Entry.Type, "children": nodes(n.Children)}
		if n.Label != nil {
			r["label"], r["labelTimestamp"] = n.Label.Label, n.Label.Timestamp
		}
		list = append(list, r)
	}
	return list
}

// file returns the session's file in the form of the recordings.
func (st *stage) file(t *testing.T) any {
	t.Helper()
	path := st.s.File()
	if path == "" {
		return result{}
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := []any{}
	for _, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		var v any
		if json.Unmarshal([]byte(line), &v) != nil {
			v = line
		}
		lines = append(lines, v)
	}
	return result{"path": path, "lines": lines}
}

func (st *stage) files(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(st.n.dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}
