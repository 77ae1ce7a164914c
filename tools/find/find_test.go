package find_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/tools/find"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
)

func TestFind(t *testing.T) {
	rig := tooltest.New(t)
	for _, name := range []string{"README.md", "src/a.ts", "src/deep/B.ts", "src/deep/[x].ts", "x/src/a.ts",
		"docs/Readme.txt", ".h/.e", "b ", "log/a"} {
		rig.Put(name, "")
	}
	rig.Put(".gitignore", "log/\n")
	rig.Link("out", "../outside")
	rig.Link("file", "src/a.ts")
	rig.Link("self", ".")
	tool := find.New(rig.Workspace)
	for _, c := range []struct{ args, want string }{
		{`{"pattern":"*.ts"}`, "src/a.ts\nsrc/deep/B.ts\nsrc/deep/[x].ts\nx/src/a.ts"},
		{`{"pattern":"B*"}`, "src/deep/B.ts"},
		{`{"pattern":"b*"}`, "b \nsrc/deep/B.ts"},
		{`{"pattern":"Readme*"}`, "docs/Readme.txt"},
		{`{"pattern":"src/*.ts"}`, "src/a.ts\nx/src/a.ts"},
		{`{"pattern":"src/**"}`, "src/a.ts\nsrc/deep/\nsrc/deep/B.ts\nsrc/deep/[x].ts\nx/src/a.ts"},
		{`{"pattern":"**/deep"}`, "src/deep/"},
		{`{"pattern":"` + rig.Root + `/src/*"}`, "src/a.ts\nsrc/deep/"},
		{`{"pattern":"/src/*"}`, "No files found matching pattern"},
		{`{"pattern":"src/*","path":"src"}`, "a.ts\ndeep/"}, // paths are whole
		{`{"pattern":"\\[x\\]*"}`, "src/deep/[x].ts"},
		{`{"pattern":"{o*,f*,s*}"}`, "file\nout\nself\nsrc/\nx/src/"},
		{`{"pattern":"","path":"docs"}`, "Readme.txt"},
		{`{"pattern":"*","path":"self/docs"}`, "Readme.txt"},
		{`{"pattern":"**","path":".h"}`, ".e"},
		{`{"pattern":"a","path":"log"}`, "a"},
		{`{"pattern":"*.ts","limit":0}`, "src/a.ts\n\n[1 results limit reached. Use limit=2 for more, or refine pattern]"},
		{`{"pattern":"*.ts","limit":4}`, "src/a.ts\nsrc/deep/B.ts\nsrc/deep/[x].ts\nx/src/a.ts\n\n[4 results limit " +
			"reached. Use limit=8 for more, or refine pattern]"},
		{`{"pattern":"*","path":"none"}`, "Path not found: " + rig.Path("none")},
		{`{"pattern":"*","path":"src/a.ts"}`, "Not a directory: " + rig.Path("src/a.ts")},
		{`{"pattern":"*","path":"out"}`, "Access denied: " + rig.Path("out") + " is outside " + rig.Root +
			", and only files inside may be used"},
		{`{"pattern":"a["}`, `bad glob "a[": a bracket or brace is not closed, or a range is upside down`},
	} {
		if got, _ := rig.Text(tool, c.args); got != c.want {
			t.Errorf("%s (-want +got):\n%s", c.args, cmp.Diff(c.want, got))
		}
	}
}

func TestLongListsAreCutByBytes(t *testing.T) {
	rig := tooltest.New(t)
	for n := range 300 {
		rig.Put(fmt.Sprintf("%0200d", n), "")
	}
	got, _ := rig.Text(find.New(rig.Workspace), `{"pattern":"*","limit":300}`)
	if !strings.HasSuffix(got, "\n\n[300 results limit reached. Use limit=600 for more, or refine pattern. 50.0KB "+
		"limit reached]") || strings.Count(got, "\n") != 51200/201+1 {
		t.Errorf("%d lines, %q", strings.Count(got, "\n"), got[len(got)-120:])
	}
}
