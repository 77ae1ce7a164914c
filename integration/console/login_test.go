//go:build unix

package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/bustest/suite"
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

// A user of least permissions has answers sent to an inbox of its own, which nobody else may hear.
func TestAnswersComeToTheUsersInbox(t *testing.T) {
	suite.LongForm(t)
	t.Parallel()
	needsBrowser(t)
	query := "agent.query.sessions"
	s := bustest.NATS(t, &server.Options{JetStream: true, Users: []*server.User{
		{Username: "root", Password: "secret"},
		{Username: "ann", Password: "secret", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{query}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_ann.>"}},
		}},
		{Username: "bob", Password: "secret", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{query}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
		}},
	}})
	root, err := nats.Connect("nats://root:secret@" + s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(root.Close)
	asked, err := root.SubscribeSync(query)
	if err == nil {
		err = root.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	site := serveConsole(t, "nats://"+s.Addr().String())
	for _, c := range [][2]string{{"ann", "_INBOX_ann."}, {"bob", "_INBOX."}} {
		user, inbox := c[0], c[1]
		page := newWindow(t)
		page.do(chromedp.Navigate(site))
		page.types("input[autocomplete=username]", user)
		page.types("input[type=password]", "secret"+enter)
		page.shows(".link.up", "connected")
		for reply := ""; !strings.HasPrefix(reply, inbox); { // the window of before may ask again
			m, err := asked.NextMsgWithContext(bustest.Deadline(t))
			if err != nil {
				t.Fatalf("%s does not ask for answers at %s: %v", user, inbox, err)
			}
			reply = m.Reply
		}
		page.do(chromedp.Navigate(site + "/#/fleet"))
		page.shows("main", "Permissions Violation for Publish to \"$SRV.INFO.loopbus-runner\"")
	}
}
