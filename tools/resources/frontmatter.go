package resources

import (
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/tools/flatyaml"
)

// maxFrontMatter is the largest front matter that is parsed as YAML, in bytes.
const maxFrontMatter = 8 << 10

// frontMatter is the metadata of a file between two lines of ---.
type frontMatter struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	Manual      bool   `yaml:"disable-model-invocation"`
}

// split parses the front matter of a text, and returns it with the text that follows. A text without front matter is
// returned unchanged.
func split(text string) (m frontMatter, rest string, err error) {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\uFEFF"), "\r\n", "\n")
	head, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return m, text, nil
	}
	head, rest, ok = strings.Cut("\n"+head, "\n---")
	if line, after, _ := strings.Cut(rest, "\n"); !ok || strings.TrimSpace(line) != "" {
		return m, text, nil
	} else {
		rest = after
	}
	if len(head) > maxFrontMatter {
		return m, rest, fmt.Errorf("its front matter is larger than %d bytes", maxFrontMatter)
	}
	if err := flatyaml.Unmarshal([]byte(head), &m); err != nil {
		return m, rest, fmt.Errorf("its front matter is no YAML: %w", err)
	}
	return m, rest, nil
}
