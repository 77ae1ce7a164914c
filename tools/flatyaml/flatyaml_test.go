package flatyaml_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/tools/flatyaml"
)

// What a file of 8 KiB, the front matter of a skill, can say.
func TestHostileDocuments(t *testing.T) {
	t.Parallel()
	aliases, merges := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n", "a0: &a0 {name: x}\n"
	for i := range 60 {
		aliases += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 8), i)
		merges += fmt.Sprintf("a%d: &a%d {<<: [*a%d,*a%d]}\n", i+1, i+1, i, i)
	}
	for what, text := range map[string]string{
		"aliases":     aliases + "name: *a60\n",
		"merged keys": merges + "<<: *a60\n",
		"itself":      "name: &a [*a]\n",
		"anchors":     strings.Repeat("&a ", 2600),
		"brackets":    "name: " + strings.Repeat("[", 8000),
		"braces":      "name: " + strings.Repeat("{a: ", 2000),
		"dashes":      strings.Repeat("- ", 4000),
		"keys":        strings.Repeat("? ", 4000),
	} {
		var v struct{ Name string }
		begun := time.Now()
		if err := flatyaml.Unmarshal([]byte(text), &v); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%s: it took %s", what, took)
		}
	}
}

func TestWhatIsRead(t *testing.T) {
	t.Parallel()
	var v struct {
		Name     string
		Tools    []string
		Metadata map[string]string
	}
	err := flatyaml.Unmarshal([]byte("name: a # b\ntools: [x, y]\nmetadata:\n  k: v\nother: {a: [b]}\n"), &v)
	if err != nil || v.Name != "a" || len(v.Tools) != 2 || v.Metadata["k"] != "v" {
		t.Errorf("%+v, %v", v, err)
	}
	if err := flatyaml.Unmarshal([]byte("name: [secret\n"), &v); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}
