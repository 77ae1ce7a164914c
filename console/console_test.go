package console_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/console"
)

// maxBytes is what the console may add to a program.
const maxBytes = 300 << 10

// all are the files of the console and of the client by name.
func all(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, pattern := range []string{"*", "*/*", "client/*"} {
		names, err := fs.Glob(console.Files(), pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if content, err := fs.ReadFile(console.Files(), name); err == nil { // it is no directory
				files[name] = string(content)
			}
		}
	}
	for _, name := range []string{"loopbus.js", "follow.js", "log.js", "stored.js", "approvals.js", "tools.js",
		"fleet.js", "inputs.js", "numbers.js", "shapes.js"} {
		content, err := fs.ReadFile(console.Files(), "client/"+name)
		if err != nil {
			t.Fatal(err)
		}
		files["client/"+name] = string(content)
	}
	return files
}

func TestSize(t *testing.T) {
	t.Parallel()
	size := 0
	for _, content := range all(t) {
		size += len(content)
	}
	if t.Logf("%d bytes", size); size > maxBytes || size == 0 {
		t.Errorf("the console has %d bytes, more than %d", size, maxBytes)
	}
}

var (
	imported = regexp.MustCompile(`(?m)^(?:import|export)\b[^;]*?\bfrom "([^"]+)";|^import "([^"]+)";`)
	// What would make markup of text, or run it: output of models and tools gets onto the page as text nodes only.
	markup = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|DOMParser|` +
		`createContextualFragment|javascript:|srcdoc|setHTML`)
	elsewhere = regexp.MustCompile(`https?://`)
	// What would show text of others without html.js.
	nodes = regexp.MustCompile(`import \{[^}]*\bh(?:tm)?\b[^}]*\} from "[^"]*/preact\.js"`)
)

// Nothing is loaded from elsewhere, every module that is imported is there, and no code of ours makes markup of text.
func TestFiles(t *testing.T) {
	t.Parallel()
	files := all(t)
	for name, content := range files {
		if strings.HasPrefix(name, "vendor/") {
			continue
		}
		for _, m := range imported.FindAllStringSubmatch(content, -1) {
			if to := path.Join(path.Dir(name), m[1]+m[2]); files[to] == "" {
				t.Errorf("%s imports %s, which is not there", name, m[1]+m[2])
			}
		}
		if found := markup.FindString(content); found != "" {
			t.Errorf("%s has %s", name, found)
		}
		if found := nodes.FindString(content); found != "" && name != "html.js" {
			t.Errorf("%s makes nodes itself: %s", name, found)
		}
		if found := elsewhere.FindString(content); found != "" && strings.HasSuffix(name, ".js") {
			t.Errorf("%s names another place: %s", name, found)
		}
	}
	if page := files["index.html"]; strings.Contains(page, "<style") || strings.Contains(page, "style=") ||
		!strings.Contains(page, `<script type="module" src="/app.js"></script>`) {
		t.Error("index.html is not as the content security policy wants it")
	}
}

var preloaded = regexp.MustCompile(`<link rel="modulepreload" href="/([^"]+)">`)

// The page asks for all modules at once, not for one after the other has named it.
func TestModulesArePreloaded(t *testing.T) {
	t.Parallel()
	files := all(t)
	var want, got []string
	for name := range files {
		if strings.HasSuffix(name, ".js") && name != "app.js" {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	for _, m := range preloaded.FindAllStringSubmatch(files["index.html"], -1) {
		got = append(got, m[1])
	}
	if !slices.Equal(got, want) {
		t.Errorf("index.html asks for %q, want %q", got, want)
	}
}

func TestFilesAreServed(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.FileServerFS(console.Files()))
	defer s.Close()
	for path, kind := range map[string]string{"/": "text/html; charset=utf-8", "/app.css": "text/css; charset=utf-8",
		"/app.js": "text/javascript; charset=utf-8", "/client/loopbus.js": "text/javascript; charset=utf-8"} {
		res, err := http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || got != kind {
			t.Errorf("%s: %s, %s", path, res.Status, got)
		}
	}
}
