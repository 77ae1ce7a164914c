package client_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// Arguments that are too large are left out, and those for which there is no room beside the others that wait. There is
// room again once these do not wait any more.
func TestApprovalsOutlined(t *testing.T) {
	t.Parallel()
	server, author, _ := start(t)
	asks := func(session string, bytes int) func() {
		a := newAuthor(t, author.c, session)
		a.commit(&schemas.AgentStart{})
		args := json.RawMessage(strconv.Quote(strings.Repeat("x", bytes-2)))
		a.commit(&schemas.ApprovalRequested{ToolCallID: "x", Call: "c2", ToolName: "bash", Args: args})
		return func() { a.commit(&schemas.AgentEnd{}) }
	}
	asks("large", 501)
	got := make(chan client.Approval)
	ctx, c := bustest.Deadline(t), connect(t, server.ClientURL())
	go func() {
		for a, err := range c.ApprovalsOutlined(ctx, 500, 800) {
			if err == nil {
				got <- a
			}
		}
	}()
	want := func(session string, args, leftOut int) {
		t.Helper()
		a := bustest.Within(t, got)
		if a.Session != session || len(a.Request.Args) != args || a.LeftOut != leftOut || a.Request.ToolName != "bash" {
			t.Errorf("%s with %d bytes, %d left out; want %s, %d, %d", a.Session, len(a.Request.Args), a.LeftOut, session,
				args, leftOut)
		}
	}
	want("large", 0, 501)
	ended := asks("first", 500)
	want("first", 500, 0)
	asks("second", 301)
	want("second", 0, 301)
	asks("third", 300)
	want("third", 300, 0)
	ended()
	want("first", 500, 0)
	asks("fourth", 500)
	want("fourth", 500, 0)
}
