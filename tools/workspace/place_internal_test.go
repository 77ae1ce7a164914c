package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// What is put in the place of something between looking and opening is not opened, nor is anything made through it.
func TestWhatIsSwappedIsNotUsed(t *testing.T) {
	t.Parallel()
	open := func(flag int) func(*place) error {
		return func(p *place) error {
			file, err := p.open(flag, 0o644, nil)
			if err == nil {
				_ = file.Close()
			}
			return err
		}
	}
	for name, c := range map[string]struct {
		path, link, target string // the link is put in while the path is followed
		use                func(*place) error
	}{
		"a file read":           {"f", "f", "store/token", open(os.O_RDONLY)},
		"a file cut":            {"f", "f", "store/token", open(os.O_WRONLY | os.O_CREATE | os.O_TRUNC)},
		"a file made":           {"new", "new", "store/made", open(os.O_WRONLY | os.O_CREATE)},
		"a directory listed":    {"d", "d", "store/inner", open(os.O_RDONLY)},
		"a directory entered":   {"d", "d", "store/inner", (*place).enter},
		"a directory made":      {"new/more", "new", "store/inner", func(p *place) error { return p.mkdirAll(0o755) }},
		"a directory made last": {"new", "new", "store/made", func(p *place) error { return p.mkdirAll(0o755) }},
	} {
		root := t.TempDir()
		for _, dir := range []string{"d", "store/inner"} {
			if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for file, content := range map[string]string{"f": "plain", "store/token": "secret"} {
			if err := os.WriteFile(filepath.Join(root, file), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		w, err := Open(Options{Root: root})
		if err != nil {
			t.Fatal(err)
		}
		err = w.once(t.Context(), filepath.Join(w.Root(), c.path), toWrite, func(p *place) error {
			link := filepath.Join(root, c.link)
			if err := errors.Join(os.RemoveAll(link), os.Symlink(c.target, link)); err != nil {
				t.Fatal(err)
			}
			return c.use(p)
		})
		left, _ := filepath.Glob(filepath.Join(root, "store/*"))
		deep, _ := filepath.Glob(filepath.Join(root, "store/inner/*"))
		token, _ := os.ReadFile(filepath.Join(root, "store/token"))
		if err == nil || len(left) != 2 || len(deep) != 0 || string(token) != "secret" {
			t.Errorf("%s: %v, left %q %q, token %q", name, err, left, deep, token)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
