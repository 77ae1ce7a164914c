package tools_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/loopbus/loopbus/schemas"
)

// A stage is the three directories a case is played in, links in their names resolved.
type stage struct {
	root, home, temp string
	spill            *regexp.Regexp
}

type manyFiles []struct {
	Count int     `json:"count"`
	Path  string  `json:"path"`
	Pad   int     `json:"pad"`
	Text  *string `json:"text"`
}

// UnmarshalJSON takes one group of files or a list of them.
func (m *manyFiles) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		data = slices.Concat([]byte("["), data, []byte("]"))
	}
	type plain manyFiles
	return json.Unmarshal(data, (*plain)(m))
}

func newStage(t *testing.T, c *testCase) *stage {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{root: filepath.Join(base, "root"), home: filepath.Join(base, "home"), temp: filepath.Join(base, "temp")}
	s.spill = regexp.MustCompile(regexp.QuoteMeta(s.temp) + `/pi-bash-[0-9a-f]{16}\.log`)
	for _, dir := range []string{s.root, s.home, s.temp} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, spec := range c.Files {
		s.put(t, path, spec)
	}
	for _, many := range c.ManyFiles {
		text := []byte(`""`)
		if many.Text != nil {
			text, _ = json.Marshal(*many.Text)
		}
		for n := 1; n <= many.Count; n++ {
			number := strconv.Itoa(n)
			number = strings.Repeat("0", max(0, many.Pad-len(number))) + number
			s.put(t, strings.ReplaceAll(many.Path, "{n}", number), bytes.ReplaceAll(text, []byte("{n}"), []byte(number)))
		}
	}
	return s
}

// wait gives what runs in the background the time the case asks for.
func (s *stage) wait(ms int) { <-time.After(time.Duration(ms) * time.Millisecond) }

func (s *stage) path(name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		return filepath.Join(s.home, rest)
	}
	return filepath.Join(s.root, name)
}

// fill puts the directories in for their placeholders, blank does the reverse.
func (s *stage) fill(text string) string {
	return strings.NewReplacer("{{ROOT}}", s.root, "{{HOME}}", s.home).Replace(text)
}

func (s *stage) blank(text string) string {
	text = s.spill.ReplaceAllString(text, "{{SPILL}}")
	return strings.NewReplacer(s.root, "{{ROOT}}", s.home, "{{HOME}}").Replace(text)
}

type fileSpec struct {
	Text     *string           `json:"text"`
	Mode     string            `json:"mode"`
	B64      *string           `json:"b64"`
	Lines    int               `json:"lines"`
	Template string            `json:"template"`
	NoEOL    bool              `json:"noEol"`
	Repeat   string            `json:"repeat"`
	Count    int               `json:"count"`
	Parts    []json.RawMessage `json:"parts"`
	Dir      bool              `json:"dir"`
	Symlink  string            `json:"symlink"`
}

func decodeSpec(t *testing.T, raw json.RawMessage) fileSpec {
	t.Helper()
	var spec fileSpec
	var text string
	if json.Unmarshal(raw, &text) == nil {
		spec.Text = &text
	} else if err := json.Unmarshal(raw, &spec); err != nil {
		t.Fatalf("file %s: %v", raw, err)
	}
	return spec
}

func (s *stage) put(t *testing.T, name string, raw json.RawMessage) {
	t.Helper()
	spec, path := decodeSpec(t, raw), s.path(name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	switch {
	case err != nil:
	case spec.Dir:
		err = os.MkdirAll(path, 0o755)
	case spec.Symlink != "":
		err = os.Symlink(s.fill(spec.Symlink), path)
	default:
		mode := fs.FileMode(0o644)
		if spec.Mode != "" {
			bits, e := strconv.ParseUint(spec.Mode, 8, 32)
			if e != nil {
				t.Fatal(e)
			}
			mode = fs.FileMode(bits)
		}
		if err = os.WriteFile(path, spec.bytes(t), mode); err == nil {
			err = os.Chmod(path, mode)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (f fileSpec) bytes(t *testing.T) []byte {
	t.Helper()
	switch {
	case f.Text != nil:
		return []byte(*f.Text)
	case f.B64 != nil:
		data, err := base64.StdEncoding.DecodeString(*f.B64)
		if err != nil {
			t.Fatal(err)
		}
		return data
	case f.Repeat != "":
		return bytes.Repeat([]byte(f.Repeat), f.Count)
	}
	var b bytes.Buffer
	for _, part := range f.Parts {
		b.Write(decodeSpec(t, part).bytes(t))
	}
	for n := 1; n <= f.Lines; n++ {
		b.WriteString(strings.ReplaceAll(f.Template, "{n}", strconv.Itoa(n)))
		if n < f.Lines || !f.NoEOL {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

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

func (s *stage) recordedFile(data string) any {
	if !utf8.ValidString(data) {
		return map[string]any{"b64": base64.StdEncoding.EncodeToString([]byte(data))}
	}
	return shorten(s.blank(data))
}

func (s *stage) spills(t *testing.T) []any {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.temp, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var list []any
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, digest(data))
	}
	return list
}

// recordedResult writes a result as the recordings do: placeholders, long texts and images shortened.
func (s *stage) recordedResult(t *testing.T, r schemas.ToolResult) map[string]any {
	t.Helper()
	raw, err := schemas.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	blocks, _ := v["content"].([]any)
	scaled := strings.Contains(r.Content.JoinText(), "[Image: original ")
	for _, b := range blocks {
		block, _ := b.(map[string]any)
		if block["type"] != "image" {
			continue
		}
		data, err := base64.StdEncoding.DecodeString(block["data"].(string))
		if err != nil {
			t.Fatal(err)
		}
		block["data"] = digest(data)
		if scaled {
			block["data"] = map[string]any{"resized": true}
		}
	}
	return s.recordedValue(v).(map[string]any)
}

func (s *stage) recordedValue(v any) any {
	switch v := v.(type) {
	case string:
		return shorten(s.blank(v))
	case []any:
		for i := range v {
			v[i] = s.recordedValue(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = s.recordedValue(v[k])
		}
	}
	return v
}

const longText = 2000 // bytes

// shorten writes a long text as its size, hash, first and last characters.
func shorten(text string) any {
	if len(text) <= longText {
		return text
	}
	d := digest([]byte(text))
	runes := []rune(text)
	d["head"], d["tail"] = string(runes[:min(80, len(runes))]), string(runes[max(0, len(runes)-240):])
	return d
}

func digest(data []byte) map[string]any {
	sum := sha256.Sum256(data)
	return map[string]any{"bytes": len(data), "sha256": hex.EncodeToString(sum[:])}
}

func sortedLines(lines []string) string {
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// countKnown counts lines that are candidates; any other is shown.
func countKnown(lines, candidates []string) any {
	for _, line := range lines {
		if !slices.Contains(candidates, line) {
			return line
		}
	}
	return len(lines)
}

// normalised brings a value to what JSON makes of it; the order of spills is chance.
func normalised(t *testing.T, e expectation) any {
	t.Helper()
	slices.SortFunc(e.Spills, func(a, b any) int {
		return strings.Compare(a.(map[string]any)["sha256"].(string), b.(map[string]any)["sha256"].(string))
	})
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
