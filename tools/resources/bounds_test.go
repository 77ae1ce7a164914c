package resources_test

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/resources"
)

// opens counts how many files are opened.
type opens struct {
	fstest.MapFS
	files *int
}

func (o opens) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, ".md") {
		*o.files++
	}
	return o.MapFS.Open(name)
}

// Very many links to one file take some disk space at most. They are not all read.
func TestDiscoverReadsSomeFilesOnly(t *testing.T) {
	t.Parallel()
	const links = 600
	text := []byte(strings.Repeat(`"`, schemas.MaxResourceFile))
	files, read := fstest.MapFS{}, 0
	for n := range links {
		files[fmt.Sprintf(".agents/prompts/t%d.md", n)] = &fstest.MapFile{Data: text}
		files[fmt.Sprintf(".agents/skills/s%d/SKILL.md", n)] = &fstest.MapFile{Data: text}
	}
	found, err := resources.Discover(t.Context(), opens{files, &read})
	if most := 64 * schemas.MaxResourceBytes / schemas.MaxResourceFile; err != nil || read > most {
		t.Errorf("%v, %d of %d files were read", err, read, 2*links)
	}
	if n := len(found.Omitted); n == 0 || !strings.Contains(found.Omitted[n-1].Reason, "is all that is read") &&
		n < schemas.MaxResources {
		t.Errorf("omitted: %v", found.Omitted)
	}
}

// A folder with very many files is left out from a number on, which is said.
func TestDiscoverVisitsSomeFilesOnly(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{}
	for n := range 10_001 {
		files[fmt.Sprintf(".agents/prompts/t%d.txt", n)] = &fstest.MapFile{}
	}
	found, err := resources.Discover(t.Context(), files)
	want := schemas.OmittedResource{Path: ".agents/prompts", Reason: "there are more than 10000 files"}
	if err != nil || len(found.Omitted) != 1 || found.Omitted[0] != want {
		t.Errorf("%v, %v", err, found.Omitted)
	}
}

// Rules that take long for each path do not keep a look from its end.
func TestDiscoverEndsWithItsContext(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		".gitignore": {Data: []byte(strings.Repeat("**/*"+strings.Repeat("[!x]", 120)+"q\n", 2000) + "!a*\n")},
		".agents/skills/" + strings.Repeat(strings.Repeat("a", 255)+"/", 14) + "b": {},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if _, err := resources.Discover(ctx, files); err == nil || time.Since(begun) > 2*time.Second {
		t.Errorf("%v after %s", err, time.Since(begun))
	}
}
