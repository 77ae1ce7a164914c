package workspace_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
	"github.com/loopbus/loopbus/tools/workspace"
)

// withStore lays out a workspace with stores: in its root and deeper, and ways to them.
func withStore(t *testing.T) *tooltest.Rig {
	t.Helper()
	rig := tooltest.New(t)
	for _, store := range []string{"data", "d/e/data"} {
		rig.Put(store+"/"+schemas.StoreMark, "")
		rig.Put(store+"/token", "secret")
		rig.Put(store+"/jetstream/msgs/1.blk", "secret")
	}
	rig.Put("d/f", "plain")
	for link, target := range map[string]string{
		"rel": "data", "abs": rig.Path("data"), "file": "data/token", "absfile": rig.Path("data/token"),
		"inner": "data/jetstream/msgs", "chain": "d/up", "d/up": "../data", "new": "data/made", "back": "data/..",
	} {
		rig.Link(link, target)
	}
	return rig
}

// ways are paths to what is in the stores.
func ways(rig *tooltest.Rig) []string {
	return []string{
		"data/token", "./data//token", "d/../data/token", "data/jetstream/../token", "data/./token", "d/e/data/token",
		rig.Path("data/token"), rig.Root + "/../root/data/token", "rel/token", "abs/token", "file", "absfile", "inner/1.blk",
		"inner/../../token", "chain/token", "data/jetstream/msgs/1.blk", "d/e/../e/data/jetstream/msgs/1.blk", "new",
		"data/made", "data/jetstream/made", "rel/made", "inner/made", "chain/made/more", "data/" + schemas.StoreMark,
		"back/data/token",
	}
}

// Nothing in a store is read, written or made, by any way to it.
func TestStoresAreDenied(t *testing.T) {
	t.Parallel()
	rig := withStore(t)
	w := rig.Workspace
	before := tree(t, rig.Path("data")) + tree(t, rig.Path("d"))
	for _, way := range ways(rig) {
		path := w.Resolve(way)
		if !filepath.IsAbs(way) {
			path = rig.Root + "/" + way // Resolve cleans it
		}
		denied := func(what string, err error) {
			t.Helper()
			if !errors.As(err, new(*workspace.DeniedError)) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %s: %v", way, what, err)
			}
		}
		_, err := w.OpenFile(t.Context(), path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
		denied("write", err)
		denied("mkdir", w.MkdirAll(t.Context(), path+"/deep", 0o755))
		denied("queue", w.Exclusive(t.Context(), path+"/deep", func() error { return nil }))
		if strings.Contains(way, "made") || way == "new" {
			continue
		}
		_, err = w.Open(t.Context(), path)
		denied("read", err)
	}
	for _, dir := range []string{"data", "rel", "abs", "chain", "d/e/data", "data/jetstream", "inner", "data/."} {
		_, err := w.Open(t.Context(), w.Resolve(dir))
		if !errors.As(err, new(*workspace.DeniedError)) {
			t.Errorf("%s: list: %v", dir, err)
		}
	}
	if after := tree(t, rig.Path("data")) + tree(t, rig.Path("d")); after != before {
		t.Errorf("the stores were\n%s, are\n%s", before, after)
	}
	if info, err := w.Stat(t.Context(), rig.Path("data")); err != nil || !info.IsDir() {
		t.Errorf("the store's directory cannot be seen: %v", err)
	}
	file, err := w.Open(t.Context(), rig.Path("d/f"))
	if err != nil {
		t.Fatalf("what is beside a store: %v", err)
	}
	_ = file.Close()
}

// Whoever walks through the files of FS finds a store closed.
func TestStoresAreClosedToWalks(t *testing.T) {
	t.Parallel()
	rig := withStore(t)
	files, name, err := rig.Workspace.FS(t.Context(), rig.Root)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	err = fs.WalkDir(files, name, func(path string, e fs.DirEntry, err error) error {
		if strings.Contains(path, "data/") {
			t.Errorf("found %s", path)
		}
		if found++; err != nil {
			if !errors.As(err, new(*workspace.DeniedError)) || !strings.HasSuffix(path, "data") {
				t.Errorf("%s: %v", path, err)
			}
			return fs.SkipDir
		}
		return nil
	})
	if err != nil || found < 10 {
		t.Errorf("%d found, %v", found, err)
	}
	for _, way := range ways(rig) {
		if filepath.IsAbs(way) {
			continue
		}
		below := files.(interface {
			fs.StatFS
			fs.ReadLinkFS
		})
		for what, err := range map[string]error{
			"open": second(files.Open(way)), "stat": second(below.Stat(way)), "lstat": second(below.Lstat(way + "/x")),
			"read link": second(below.ReadLink(way)),
		} {
			if err == nil && what != "stat" && what != "read link" {
				t.Errorf("%s: %s: no error", way, what)
			}
		}
		if data, err := fs.ReadFile(files, way); err == nil {
			t.Errorf("%s: read %q", way, data)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// While a link to a store comes and goes, nobody is led into it.
func TestSwappedDirectoryDoesNotLeadIntoAStore(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]string{"the store": "data", "inside it": "data/jetstream"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rig := withStore(t)
			rig.Put("swap/token", "plain")
			rig.Put("swap/msgs/1.blk", "plain")
			before := tree(t, rig.Path("data"))
			stop := rig.SwapWithLink("swap", target)
			opened := 0
			for range 1000 {
				for _, path := range []string{"swap/token", "swap/msgs/1.blk"} {
					file, err := rig.Workspace.Open(t.Context(), rig.Path(path))
					if err != nil {
						continue
					}
					opened++
					if data, err := io.ReadAll(file); err != nil || string(data) == "secret" {
						t.Errorf("%s: read %q, %v", path, data, err)
					}
					_ = file.Close()
				}
				_ = rig.Workspace.MkdirAll(t.Context(), rig.Path("swap/made/more"), 0o755)
				_ = os.RemoveAll(rig.Path("swap.real/made"))
				for _, path := range []string{"swap/token", "swap/new"} {
					const flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
					if f, err := rig.Workspace.OpenFile(t.Context(), rig.Path(path), flags, 0o644); err == nil {
						_ = errors.Join(workspace.Replace(f, []byte("plain")), f.Close())
					}
				}
			}
			stop()
			if after := tree(t, rig.Path("data")); after != before {
				t.Errorf("the store was\n%s, is\n%s", before, after)
			}
			if opened == 0 {
				t.Error("nothing was ever opened")
			}
		})
	}
}

// A store that is made while the workspace is open is denied from then on, also the workspace itself.
func TestStoreThatComesLater(t *testing.T) {
	t.Parallel()
	rig := tooltest.New(t)
	rig.Put("later/token", "secret")
	if file, err := rig.Workspace.Open(t.Context(), rig.Path("later/token")); err != nil {
		t.Fatal(err)
	} else {
		_ = file.Close()
	}
	for _, mark := range []string{"later/" + schemas.StoreMark, schemas.StoreMark} {
		rig.Put(mark, "")
		if _, err := rig.Workspace.Open(t.Context(), rig.Path("later/token")); !errors.As(err, new(*workspace.DeniedError)) {
			t.Errorf("%s: %v", mark, err)
		}
		if err := os.Remove(rig.Path(mark)); err != nil {
			t.Fatal(err)
		}
	}
}

// Nobody makes a mark by the workspace, in whatever case: it would plant a store.
func TestMarksCannotBeMade(t *testing.T) {
	t.Parallel()
	rig := tooltest.New(t)
	for _, name := range []string{schemas.StoreMark, "d/" + schemas.StoreMark, strings.ToUpper(schemas.StoreMark),
		"loopbu\u017f.lock"} {
		_, err := rig.Workspace.OpenFile(t.Context(), rig.Path(name), os.O_WRONLY|os.O_CREATE, 0o644)
		made := rig.Workspace.MkdirAll(t.Context(), rig.Path(name+"/x"), 0o755)
		if !strings.HasPrefix(name, "d/") && !errors.As(err, new(*workspace.DeniedError)) ||
			!errors.As(made, new(*workspace.DeniedError)) {
			t.Errorf("%s: %v, %v", name, err, made)
		}
	}
}

// A store, and what is in one, is no root.
func TestRootInAStore(t *testing.T) {
	t.Parallel()
	rig := withStore(t)
	for _, o := range []workspace.Options{{Root: rig.Path("data")}, {Root: rig.Path("data/jetstream/msgs")},
		{Root: rig.Path("inner")}, {Root: rig.Path("d/f/.."), Also: []string{rig.Path("rel")}},
		{Root: rig.Root, Files: []string{rig.Path("data/*")}}} {
		if w, err := workspace.Open(o); err == nil || !strings.Contains(err.Error(), "is the store of a runner, or in one") ||
			!strings.Contains(err.Error(), schemas.StoreMark) {
			t.Errorf("%+v: %v", o, err)
			_ = w.Close()
		}
	}
}

// Private files are neither read nor written under any name, also when another file has come into their place.
func TestPrivateFiles(t *testing.T) {
	t.Parallel()
	rig := tooltest.New(t)
	rig.Put("d/keys.json", "secret")
	rig.Link("link", "d/keys.json")
	if err := os.Link(rig.Path("d/keys.json"), rig.Path("hard")); err != nil {
		t.Fatal(err)
	}
	w := open(t, workspace.Options{Root: rig.Root, Private: []string{rig.Path("link"), rig.Path("none")}})
	denied := func(names ...string) {
		t.Helper()
		for _, name := range names {
			_, read := w.Open(t.Context(), rig.Path(name))
			_, write := w.OpenFile(t.Context(), rig.Path(name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
			files, start, err := w.FS(t.Context(), rig.Path(name))
			if err != nil {
				t.Fatal(err)
			}
			_, walked := files.Open(start)
			for _, err := range []error{read, write, walked} {
				if !errors.As(err, new(*workspace.DeniedError)) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if rig.Get(name) != "secret" {
				t.Errorf("%s: %q", name, rig.Get(name))
			}
		}
	}
	denied("d/keys.json", "link", "hard")
	rig.Put("d/next", "secret")
	if err := os.Rename(rig.Path("d/next"), rig.Path("d/keys.json")); err != nil {
		t.Fatal(err)
	}
	denied("d/keys.json", "link", "hard")
	if err := os.Rename(rig.Path("d"), rig.Path("e")); err != nil { // what a command can do
		t.Fatal(err)
	}
	denied("hard")
}
