package tools_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// entry is a file as it is found.
type entry struct {
	kind fs.FileMode
	mode fs.FileMode
	data string // content, or target of a link
}

func (s *stage) tree(t *testing.T) map[string]entry {
	t.Helper()
	found := map[string]entry{}
	for prefix, top := range map[string]string{"": s.root, "~/": s.home} {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil || path == top {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			e := entry{kind: info.Mode().Type(), mode: info.Mode().Perm()}
			switch {
			case info.Mode().IsRegular():
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				e.data = string(data)
			case e.kind == fs.ModeSymlink:
				if e.data, err = os.Readlink(path); err != nil {
					return err
				}
			}
			found[prefix+strings.TrimPrefix(path, top+"/")] = e
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func changes(before, after map[string]entry, s *stage) map[string]any {
	changed := map[string]any{}
	for name := range before {
		if _, ok := after[name]; !ok {
			changed[name] = map[string]any{"deleted": true}
		}
	}
	for name, now := range after {
		old, existed := before[name]
		switch {
		case existed && old.kind == now.kind && old.data == now.data && (old.mode == now.mode || !now.kind.IsRegular()):
		case now.kind == fs.ModeDir:
			changed[name] = map[string]any{"dir": true}
		case now.kind == fs.ModeSymlink:
			changed[name] = map[string]any{"symlink": s.blank(now.data)}
		case existed && old.kind == now.kind && old.mode != now.mode:
			changed[name] = map[string]any{"content": s.recordedFile(now.data), "mode": strconv.FormatUint(uint64(now.mode), 8)}
		default:
			changed[name] = s.recordedFile(now.data)
		}
	}
	return changed
}
