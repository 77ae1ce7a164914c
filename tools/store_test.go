package tools_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
)

// By no tool does any way lead into a runner's store in the workspace: nothing in it is seen, and nothing changes
// there. What is beside it is found as ever.
func TestNoWayIntoAStore(t *testing.T) {
	t.Parallel()
	p := newPrison(t)
	for _, store := range []string{"data", "d/deep/data"} {
		for _, file := range []string{schemas.StoreMark, known, unknown, "jetstream/" + known} {
			p.Put(store+"/"+file, treasure+"\n")
		}
		for link, target := range map[string]string{"rel": store, "abs": p.Path(store), "inner": store + "/jetstream"} {
			p.Link(fmt.Sprintf("%s-%s", link, filepath.Base(filepath.Dir(store))), target)
		}
	}
	p.Link("token", "data/"+known)
	p.Link(".gitignore", "data/"+known)
	p.Link("AGENTS.md", "data/"+known)
	p.Put("beside", "beside\n")
	content := func() map[string]string {
		all := map[string]string{}
		for _, store := range []string{"data", "d/deep/data"} {
			for _, pattern := range []string{"*", "*/*"} {
				found, err := filepath.Glob(p.Path(store + "/" + pattern))
				if err != nil {
					t.Fatal(err)
				}
				for _, file := range found {
					data, _ := os.ReadFile(file) // a directory has none
					all[file] = string(data)
				}
			}
		}
		return all
	}
	before := content()
	paths := []string{"token", "AGENTS.md", ".", "", "d", "d/deep"}
	for _, dir := range []string{"data", "d/deep/data", "./d/../data", "rel-.", "abs-.", "inner-.", "rel-deep", "abs-deep",
		"inner-deep", "data/jetstream", "data/jetstream/..", p.Path("data"), p.Root + "/../root/data", "@data", "~/data"} {
		paths = append(paths, dir, dir+"/"+known, dir+"/"+schemas.StoreMark)
	}
	for _, path := range paths {
		for _, call := range attempts(path) {
			if text, _ := p.Text(p.box[call.tool], call.args); leaks(text) {
				t.Errorf("%s: %s %v says %q", path, call.tool, call.args, text)
			}
		}
	}
	if d := cmp.Diff(before, content()); d != "" || len(before) != 8+2 {
		t.Errorf("%d files, the stores (-before +after):\n%s", len(before), d)
	}
	for tool, c := range map[string]struct{ args, want string }{
		"read":  {`{"path":"data/known"}`, "Access denied: "},
		"write": {`{"path":"data/jetstream/known","content":"x"}`, "is the store of a runner, or in one"},
		"ls":    {`{"path":"."}`, "data/\n"},
		"grep":  {`{"pattern":"beside"}`, "beside:1: beside"},
		"find":  {`{"pattern":"besid*"}`, "beside"},
	} {
		if text, _ := p.Text(p.box[tool], c.args); !strings.Contains(text, c.want) {
			t.Errorf("%s %s: %q, want %q", tool, c.args, text, c.want)
		}
	}
}
