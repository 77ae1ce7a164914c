package tools_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/edit"
	"github.com/loopbus/loopbus/tools/find"
	"github.com/loopbus/loopbus/tools/grep"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
	"github.com/loopbus/loopbus/tools/ls"
	"github.com/loopbus/loopbus/tools/read"
	"github.com/loopbus/loopbus/tools/workspace"
	"github.com/loopbus/loopbus/tools/write"
)

// Beyond the root are a file whose name is known, and one whose name nobody may learn. Both hold the treasure.
const (
	known    = "known"
	unknown  = "unknown-name"
	treasure = "hidden-treasure"
)

// A prison is a root with a file and a directory in it, and next to it a directory that nobody may get to.
type prison struct {
	*tooltest.Rig
	base, outside string
	box           map[string]tools.Tool
}

func newPrison(t *testing.T) *prison {
	t.Helper()
	rig := tooltest.New(t)
	p := &prison{Rig: rig, base: filepath.Dir(rig.Root)}
	p.outside = filepath.Join(p.base, "outside")
	rig.Put("d/e/f", "inside\n")
	for _, dir := range []string{"../outside/", "../root-too/"} {
		rig.Put(dir+known, treasure+"\n")
		rig.Put(dir+unknown, treasure+"\n")
	}
	p.box = allTools(rig.Workspace, t.TempDir(), []string{"PATH=" + os.Getenv("PATH")})
	return p
}

// ways lead to the directory outside. Those with a link have it made first.
func ways(p *prison) map[string]string {
	link := func(name, target string) string {
		p.Link(name, target)
		return name
	}
	p.Link("links/2", "3")
	p.Link("links/3", "../d/4")
	p.Link("d/4", "../../outside")
	return map[string]string{
		"the parent":                     "../outside",
		"down and up":                    "d/e/../../../outside",
		"dots and slashes":               "./d/.//.././../outside/./",
		"absolute":                       p.outside,
		"absolute through the root":      p.Root + "/../outside",
		"absolute, up from inside":       p.Root + "/d/../../outside",
		"a directory with a longer name": p.Root + "-too",
		"another case":                   filepath.Join(p.base, "OUTSIDE", "..", "outside"),
		"a link":                         link("relative", "../outside"),
		"an absolute link":               link("absolute", p.outside),
		"a link with dots":               link("dots", "d/e/../../../outside"),
		"a link to the parent":           link("up", "..") + "/outside",
		"a link to the root of all":      link("slash", "/") + p.outside,
		"a link below":                   link("d/below", "../../outside"),
		"a chain of links":               link("links/1", "2"),
		"a link and dots":                link("inside", "d/e") + "/../../../outside",
		"a link to the process's root":   link("proc", "/proc/self/root") + p.outside,
		"the process's root":             "/proc/self/root" + p.outside,
		"the process's directory":        "/proc/self/cwd/../../../../../../../.." + p.outside,
		"a file descriptor":              "/dev/fd/../../" + p.outside,
		"home":                           "~/../outside",
		"a mention":                      "@../outside",
		"a mention of home":              "@~/../outside",
		"strange blanks":                 "\u00a0/../../outside",
		"dots with blanks":               "..\u3000/../../outside",
		"backslashes":                    `..\outside`,
		"an encoded path":                "%2e%2e/outside",
		"a URL":                          "file://" + p.outside,
		"a null byte":                    "d\x00/../../outside",
	}
}

// Through none of the tools does any way lead out: nothing outside is seen, and nothing changes there.
func TestNoWayOut(t *testing.T) {
	t.Parallel()
	p := newPrison(t)
	before := p.beyond(t)
	all := ways(p)
	if len(all) < 20 {
		t.Fatalf("only %d ways", len(all))
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		way := all[name]
		file := strings.TrimSuffix(way, "/") + "/" + known
		paths := []string{way, file}
		if !strings.Contains(way, "\x00") { // no link can have that
			for _, target := range []string{way, file} {
				if !strings.HasPrefix(target, "/") {
					target = p.Root + "/" + target
				}
				link := fmt.Sprintf("ways/%s/%d", name, len(paths))
				p.Link(link, target)
				paths = append(paths, link, link+"/"+known)
			}
		}
		for _, path := range paths {
			for _, call := range attempts(path) {
				if text, _ := p.Text(p.box[call.tool], call.args); leaks(text) {
					t.Errorf("%s: %s %v says %q", name, call.tool, call.args, text)
				}
			}
		}
		if text := p.tryBash(t, way); leaks(text) {
			t.Errorf("%s: bash says %q", name, text)
		}
	}
	if d := cmp.Diff(before, p.beyond(t)); d != "" {
		t.Errorf("beyond the root (-before +after):\n%s", d)
	}
}

func leaks(text string) bool {
	return strings.Contains(text, treasure) || strings.Contains(text, unknown)
}

type attempt struct {
	tool string
	args map[string]any
}

// attempts are calls that would show or change what a path leads to.
func attempts(path string) []attempt {
	return []attempt{
		{read.Name, map[string]any{"path": path}},
		{ls.Name, map[string]any{"path": path}},
		{find.Name, map[string]any{"pattern": "*", "path": path}},
		{find.Name, map[string]any{"pattern": path + "/**"}},
		{grep.Name, map[string]any{"pattern": "treasure", "path": path}},
		{grep.Name, map[string]any{"pattern": "treasure", "glob": path + "/**"}},
		{edit.Name, map[string]any{"path": path, "edits": []map[string]string{{"oldText": treasure, "newText": "changed"}}}},
		{write.Name, map[string]any{"path": path, "content": "gone"}},
		{write.Name, map[string]any{"path": path + "/new", "content": "new"}},
		{write.Name, map[string]any{"path": path + "/new/new", "content": "new"}},
	}
}

// tryBash has a command run where the way leads.
func (p *prison) tryBash(t *testing.T, way string) string {
	t.Helper()
	w, err := workspace.Open(workspace.Options{Root: p.Root, Home: p.Root, Dir: way})
	if err != nil {
		return ""
	}
	defer func() { _ = w.Close() }()
	tool := bash.New(bash.Options{Workspace: w, TempDir: t.TempDir(), Environ: []string{"PATH=" + os.Getenv("PATH")}})
	text, _ := p.Text(tool, `{"command":"ls; cat *; echo gone >gone"}`)
	return text
}

// beyond describes all that is outside the root.
func (p *prison) beyond(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(p.base, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == p.Root:
			return fs.SkipDir
		case e.Type().IsRegular():
			data, err := os.ReadFile(path)
			found[path] = string(data)
			return err
		}
		found[path] = e.Type().String()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// While a directory is now one, now a link that leads out, no tool is ever caught in between.
func TestLinksThatAppearAndDisappear(t *testing.T) {
	t.Parallel()
	p := newPrison(t)
	p.Put("swap/"+known, "inside\n")
	before := p.beyond(t)
	stop := p.SwapWithLink("swap", "../outside")
	inside := 0
	for range 400 {
		for _, path := range []string{"swap", "swap/" + known} {
			for _, call := range attempts(path) {
				text, isError := p.Text(p.box[call.tool], call.args)
				if leaks(text) {
					t.Fatalf("%s %v says %q", call.tool, call.args, text)
				}
				if !isError {
					inside++
				}
			}
		}
	}
	t.Logf("%d calls got inside", inside)
	stop()
	if d := cmp.Diff(before, p.beyond(t)); d != "" {
		t.Errorf("beyond the root (-before +after):\n%s", d)
	}
}
