package agui

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// A channel cannot be guessed by who knows the session. It stays while the session is bound to it, and is of that
// session alone.
func TestChannels(t *testing.T) {
	t.Parallel()
	s, _ := bustest.Small(t)
	c, err := client.Connect(s.ClientURL(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list := []frontendTool{{Name: "pick"}}
	serve := func(session, bound string, list []frontendTool) string {
		t.Helper()
		f := newFrontends(c, slog.New(slog.DiscardHandler)) // of a runner that has begun
		defer f.close()
		channel, err := f.serve(bustest.Deadline(t), session, bound, list)
		if err != nil {
			t.Fatal(err)
		}
		again, err := f.serve(bustest.Deadline(t), session, "", append(list, frontendTool{Name: "more"}))
		if err != nil || again != channel {
			t.Errorf("with other tools: %q after %q, %v", again, channel, err)
		}
		return channel
	}
	first, second := serve("s1", "", list), serve("s1", "", list)
	if first == second {
		t.Errorf("the channel of s1 is %s whenever it is made", first)
	}
	if got := serve("s1", first, list); got != first {
		t.Errorf("the session is bound to %s, the client to %s", first, got)
	}
	for session, bound := range map[string]string{"s1": channelPrefix("s1") + "known", "copy": first, "s3": "agui-x"} {
		if got := serve(session, bound, list); got == bound {
			t.Errorf("%s is bound to %s", session, bound)
		}
	}
}

// A call of a session that knows the channel of another one waits for no client, and takes no place of one that does.
func TestCallsOfOtherSessions(t *testing.T) {
	t.Parallel()
	f := newFrontends(nil, slog.New(slog.DiscardHandler))
	tool := f.tools("s1", []frontendTool{{Name: "pick"}})[0]
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // one that waits ends at once, with another error
	_, err := tool.Execute(ctx, tools.Call{Session: "s2", Key: "c3"})
	if err == nil || !strings.Contains(err.Error(), "another session") {
		t.Errorf("a call of another session: %v", err)
	}
}

// An answer may arrive before its call. One that is given again after the call is over waits for no later call with the
// same key, as there is in a session that was deleted and started again.
func TestAnswersOfNoCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFrontends(nil, slog.New(slog.DiscardHandler))
		tool := f.tools("s1", []frontendTool{{Name: "pick"}})[0]
		request := bridge.NewBudget(1<<20, maxValues).Hold("")
		answer := func(text string) {
			f.answer("s1", map[schemas.CallKey]inputMessage{"c3": {Content: []byte(`"` + text + `"`)}}, request)
		}
		answer("green")
		time.Sleep(answerKept - time.Second)
		got, err := tool.Execute(t.Context(), tools.Call{Session: "s1", Key: "c3"})
		if err != nil || got.Content.JoinText() != "green" {
			t.Errorf("a call whose answer came first has %v, %v", got, err)
		}
		answer("green")
		time.Sleep(answerKept)
		synctest.Wait()
		next := make(chan string, 1)
		go func() {
			got, err := tool.Execute(t.Context(), tools.Call{Session: "s1", Key: "c3"})
			if err != nil {
				t.Error(err)
			}
			next <- got.Content.JoinText()
		}()
		time.Sleep(answerKept) // it waits longer than an answer does
		answer("red")
		if got := <-next; got != "red" {
			t.Errorf("a later call has %q", got)
		}
		if len(f.calls) > 0 {
			t.Errorf("%d calls are left", len(f.calls))
		}
	})
}
