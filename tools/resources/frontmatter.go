package resources

import (
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/tools/flatyaml"
)

// maxFrontMatter bounds what is read as YAML.
const maxFrontMatter = 8 << 10

// frontMatter is what a file says of itself between two lines of ---.
type frontMatter struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	Manual      bool   `yaml:"disable-model-invocation"`
}

// split parses the front matter of a text, and returns the text behind it. A text without one is all text.
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
