//go:build unix

package anylanguage_test

import (
	"testing"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
)

// A program that starts before the streams exist, or before their server has recovered them, repeats its requests until
// it gets an answer. Without an answer it gets an error after its timeout.
func TestJavaScriptAsksAgain(t *testing.T) {
	t.Parallel()
	needsNode(t)
	url := system.StartServer(t, false).ClientURL()
	var last line
	unheard := map[string]bool{}
	startScript(t, url, "early").lines(func(l line) {
		if l.Unheard == "" {
			last = l
			return
		}
		if unheard[l.Unheard] = true; l.Unheard == "log" {
			sys := system.Start(t, url, system.Options{Model: chunked(t, scripted.Text("here I am"))})
			serveQueries(t, sys)
		}
	})
	if r := last.Result; r == nil || r.Text != "here I am" || !last.OK || !unheard["query"] || !unheard["log"] {
		t.Errorf("result %+v, unheard %v", last, unheard)
	}
}
