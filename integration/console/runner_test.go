//go:build unix

package console_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/loopbus/loopbus/integration/internal/process"
	"github.com/loopbus/loopbus/integration/internal/system"
)

var screenshots = flag.Bool("screenshots", false, "make the pictures of docs/images")

var link = regexp.MustCompile(`(?m)^console: (http://\S+)$`)

// startRunner starts the runner as a newcomer does, and returns the link that it prints.
func startRunner(t *testing.T) string {
	t.Helper()
	needsBrowser(t)
	dir := t.TempDir()
	if err := process.Build(dir, "cmd/runner"); err != nil {
		t.Fatal(err)
	}
	out, workspace := filepath.Join(dir, "output"), filepath.Join(dir, "workspace")
	if err := os.Mkdir(workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"notes.txt": "apples\npears\n", "todo.txt": "- count the apples\n"} {
		if err := os.WriteFile(filepath.Join(workspace, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := process.Start(process.Command{
		Name: "runner", Path: filepath.Join(dir, "runner"), Dir: workspace, Log: out,
		Args: []string{"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--model", "rehearsal", "--tools",
			"read,ls,edit,write", "--approve", "write", "--store", filepath.Join(dir, "store")},
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		if said, _ := os.ReadFile(out); t.Failed() { // which may not be there
			t.Logf("the runner said:\n%s", said)
		}
	})
	var found [][]byte
	system.Eventually(t, "the link is printed", func() bool {
		said, _ := os.ReadFile(out)
		found = link.FindSubmatch(said)
		return found != nil
	})
	return string(found[1])
}

// A new user starts the runner, opens the link that it prints, and works: prompts, reads, edits, approves. With
// -screenshots the test takes the pictures of the documents.
func TestTheLinkOfARunner(t *testing.T) {
	t.Parallel()
	needsBrowser(t)
	at := startRunner(t)
	page := newWindow(t)
	page.do(chromedp.Navigate(at))
	page.shows("main", "There are no sessions yet.")
	page.click("button", "New session")
	page.types(box, "ls"+enter)
	page.shows(".call .result", "notes.txt")
	page.shows(".end", "done")
	page.types(box, "edit notes.txt: pears => 3 pears"+enter)
	page.shows(".diff .added", "3 pears")
	page.until("two runs have ended", "document.querySelectorAll('.end').length === 2")
	session := eval[string](page, "location.hash")
	page.picture("session.png")
	page.do(chromedp.Navigate(eval[string](page, "location.origin") + "/" + session + "/time"))
	page.shows(".time .facts", "event")
	page.picture("time.png")
	page.click("button", "Fork from here")
	copied := ".two > :last-child "
	page.shows(copied+".entries", "Copy of session")
	page.types(copied+box, "read notes.txt"+enter)
	page.shows(copied+".call .result", "3 pears")
	page.shows(copied+".end", "done")
	page.until("its end is seen", `(() => { const e = document.querySelector(".two > :last-child .entries");
		return e.scrollHeight - e.scrollTop - e.clientHeight < 60; })()`)
	page.picture("pair.png")
	page.click(".top a", "Sessions")
	page.shows(".row", "ls")
	page.click("button", "New session")
	page.types(box, "write plan.txt: first the apples"+enter)
	page.shows(".approval", "policy asks")
	page.click(".top a", "Approvals")
	page.shows(".card", "plan.txt")
	page.picture("approvals.png")
	page.click(".card button", "Approve")
	page.shows("main", "Nothing waits for approval.")
	page.click(".top a", "Fleet")
	page.shows("section[aria-label=Runners]", "ready")
	page.shows("section[aria-label=Models]", "anthropic/")
	page.picture("fleet.png")
	page.click(".top a", "Sessions")
	page.until("all are at rest", "document.querySelectorAll('.row .idle').length === 3")
	page.shows(".row.below", "branch")
	page.picture("sessions.png")
	page.do(chromedp.EmulateViewport(390, 844))
	page.until("nothing is wider than a phone", "document.documentElement.scrollWidth <= 390")
	page.click(".row", "ls")
	page.shows(".diff .added", "3 pears")
	page.until("nothing is wider than a phone", "document.documentElement.scrollWidth <= 390")
	page.picture("phone.png")
}

// scheme has the page look as somebody likes it, light or dark.
func (w *window) scheme(value string) {
	w.t.Helper()
	_, err := chromedp.Call(w.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}}})
	if err != nil {
		w.t.Fatal(err)
	}
}

// picture takes a picture for the documents where it was asked for.
func (w *window) picture(name string) {
	w.t.Helper()
	if !*screenshots {
		return
	}
	if name == "time.png" { // one of them as it is in the dark
		w.scheme("dark")
		defer w.scheme("light")
	}
	w.until("notices are gone", "!document.querySelector('.notices p')")
	raw, err := chromedp.Run(w.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join("..", "..", "docs", "images", name), raw, 0o644)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}
