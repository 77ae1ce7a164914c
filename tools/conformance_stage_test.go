package tools_test

import (
	"bytes"
	"encoding/base64"
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
	s.spill = regexp.MustCompile(regexp.QuoteMeta(s.temp) + `/bash-[0-9a-f]{16}\.log`)
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
