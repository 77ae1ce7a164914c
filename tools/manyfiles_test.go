package tools_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/tools/find"
	"github.com/loopbus/loopbus/tools/grep"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
)

// manyDirs is how many directories of a hundred files are searched: -tools.dirs 1000 searches a hundred thousand files.
var manyDirs = flag.Int("tools.dirs", 100, "directories of a hundred files that TestManyFiles searches")

// In many files, what is looked for is found, and what is ignored is not entered.
func TestManyFiles(t *testing.T) {
	t.Parallel()
	const perDir = 100
	rig := tooltest.New(t)
	var making sync.WaitGroup
	for w := range 4 {
		making.Go(func() {
			for d := w; d < *manyDirs; d += 4 {
				dir := rig.Path(fmt.Sprintf("d%03d", d))
				if err := fill(dir, perDir); err != nil {
					t.Error(err)
				}
			}
		})
	}
	making.Wait()
	rig.Put("d009/needle", "here it is\n")
	rig.Put("d000/ignored/needle", "here it is\n")
	rig.Put(".gitignore", "ignored/\n")
	box := allTools(rig.Workspace, t.TempDir(), nil)
	for _, c := range []struct{ tool, args, want string }{
		{find.Name, `{"pattern":"needle"}`, "d009/needle"},
		{find.Name, `{"pattern":"**/d0*9/n*"}`, "d009/needle"},
		{grep.Name, `{"pattern":"^here\\s"}`, "d009/needle:1: here it is"},
	} {
		begun := time.Now()
		if got, isError := rig.Text(box[c.tool], c.args); isError || got != c.want {
			t.Errorf("%s %s: %q", c.tool, c.args, got)
		}
		t.Logf("%s %s took %s", c.tool, c.args, time.Since(begun).Round(time.Millisecond))
	}
	got, _ := rig.Text(box[find.Name], `{"pattern":"f*","limit":1000000}`)
	if !strings.HasSuffix(got, "\n\n[50.0KB limit reached]") {
		t.Errorf("all of them: %q", got[max(0, len(got)-100):])
	}
}

// fill makes a directory of files. They are links to one, which is much faster.
func fill(dir string, files int) error {
	first := filepath.Join(dir, "file-00")
	err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(first, []byte("nothing\n"), 0o644))
	for n := 1; n < files && err == nil; n++ {
		err = os.Link(first, fmt.Sprintf("%s/file-%02d", dir, n))
	}
	return err
}
