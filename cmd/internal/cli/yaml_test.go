package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// bomb is a file whose aliases come to nine to the power of n values.
func bomb(n int) string {
	text := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := range n {
		refs := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 9), ",")
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, refs)
	}
	return text
}

// Files that would take minutes or gigabytes to parse are refused at once, and the error does not quote them.
func TestOversizedYAMLIsRefused(t *testing.T) {
	t.Parallel()
	const most = 256 << 10
	for name, c := range map[string]struct{ content, want string }{
		"aliases":      {bomb(9), "anchors and aliases are not taken"},
		"merge keys":   {"a: {b: c}\nd:\n  <<: e\n", "not taken"},
		"brackets":     {strings.Repeat("[", most), "nested too deep"},
		"braces":       {strings.Repeat("{a: ", most/4), "nested too deep"},
		"dashes":       {strings.Repeat("- ", most/2), "nested too deep"},
		"complex keys": {strings.Repeat("? ", most/2), "not taken"},
		"size":         {strings.Repeat("# secret\n", 1<<17), "more than 1048576 bytes"},
		"values":       {"tools: [" + strings.Repeat("x,", most/4) + "x]", "more than 20000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "c.yaml")
			if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			_, _, err := parse(new(values), nil, "--config", file)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
	if _, _, err := parse(new(values), nil, "--config", "/dev/zero"); err == nil ||
		!strings.Contains(err.Error(), "more than") {
		t.Errorf("a file without an end: %v", err)
	}
}
