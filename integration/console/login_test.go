//go:build unix

package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/loopbus/loopbus/bus/bustest"
)

// If the NATS server requires credentials, the console asks for them, and keeps them for the tab.
func TestLogin(t *testing.T) {
	t.Parallel()
	needsBrowser(t)
	s := bustest.NATS(t, &server.Options{JetStream: true, Username: "ann", Password: "secret"})
	page := newWindow(t)
	page.do(chromedp.Navigate(serveConsole(t, "nats://"+s.Addr().String())))
	page.shows(".login", "The server requires")
	page.types("input[autocomplete=username]", "ann")
	page.types("input[type=password]", "wrong"+enter)
	page.shows(".login", "The server refuses these credentials.")
	page.types("input[type=password]", "secret"+enter)
	page.shows(".link.up", "connected")
	page.do(chromedp.Reload())
	page.shows(".link.up", "connected")
	if kept := eval[int](page, "localStorage.length"); kept != 0 {
		t.Error("the credentials outlive the tab")
	}
}
