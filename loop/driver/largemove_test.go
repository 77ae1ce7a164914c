package driver_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/jsonroom"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// messages returns the ids of the messages of a role in the order of the log.
func messages(r *looptest.Rig, role schemas.Role) (ids []string) {
	for _, e := range r.Events() {
		if end, ok := e.Data.(*schemas.MessageEnd); ok && end.Message.Message.MessageRole() == role {
			ids = append(ids, end.MessageID)
		}
	}
	return ids
}

// TestLargeMovesWaitForRoom has moves to other paths, with a summary and without, and copies of sessions wait until
// there is room to store their messages once more. The test is not parallel, as the room is that of the process.
func TestLargeMovesWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := looptest.New(t, looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage,
			error) {
			return looptest.Say("hi"), nil
		}))
		r.Deliver("p1", looptest.Prompt(strings.Repeat("x", 1<<20)))
		prompt, reply := messages(r, schemas.RoleUser)[0], messages(r, schemas.RoleAssistant)[0]
		r.Deliver("n1", &schemas.Navigate{TargetID: prompt})
		r.Deliver("p2", looptest.Prompt("small"))
		for i, move := range []schemas.CommandData{
			&schemas.Navigate{TargetID: reply}, &schemas.Branch{Session: "s1"},
			&schemas.Navigate{TargetID: messages(r, schemas.RoleAssistant)[1]},
			&schemas.Navigate{TargetID: reply, Summarize: true},
		} {
			c := looptest.Command("m"+string(rune('1'+i)), move)
			if _, copies := move.(*schemas.Branch); copies {
				c.Session = "copy"
			}
			all, err := jsonroom.Replies.Wait(t.Context(), 128<<20)
			if err != nil {
				t.Fatal(err)
			}
			stored := make(chan error, 1)
			go func() { stored <- r.Host.Deliver(t.Context(), c, nil) }()
			synctest.Wait()
			if waits := len(stored) == 0; waits != (i != 2) {
				t.Errorf("move %d waits for room: %v", i, waits)
			}
			all()
			if err := <-stored; err != nil {
				t.Error(err)
			}
		}
		moves := 0
		for _, e := range r.Events() {
			if leaf, ok := e.Data.(*schemas.Leaf); ok && len(leaf.Entries) > 0 {
				moves++
			}
		}
		if moves != 3 {
			t.Errorf("%d moves to another path were stored, want 3", moves)
		}
	})
}

// leafLog tells when it gets a move, and stores it once it may.
type leafLog struct {
	host.SessionLog
	got  chan<- string
	free <-chan struct{}
}

func (l *leafLog) Append(ctx context.Context, e schemas.Event) error {
	if _, ok := e.Data.(*schemas.Leaf); ok {
		l.got <- e.Session
		<-l.free
	}
	return l.SessionLog.Append(ctx, e)
}

// TestLargePathsTakeTurns has two sessions move to entries whose paths are large: the second reads its path when the
// move of the first is stored, as the path is in memory until then. The test is not parallel, as its replies need room
// that is the process's.
func TestLargePathsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := strings.Repeat("x", 9<<20)
		got, free := make(chan string, 10), make(chan struct{})
		r := looptest.New(t, looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage,
			error) {
			return looptest.Say(large), nil
		}), func(o *host.Options) {
			open := o.Open
			o.Open = func(ctx context.Context, session string) (host.SessionLog, error) {
				log, err := open(ctx, session)
				return &leafLog{log, got, free}, err
			}
		})
		deliver := func(session, id string, data schemas.CommandData) {
			c := looptest.Command(id, data)
			c.Session = session
			if err := r.Host.Deliver(t.Context(), c, nil); err != nil {
				t.Errorf("%s: %v", session, err)
			}
		}
		sessions := []string{"s1", "s2"}
		for _, session := range sessions {
			for _, id := range []string{"p1", "p2", "p3"} {
				deliver(session, id, looptest.Prompt("go"))
			}
		}
		third := messages(r, schemas.RoleUser)[2] // the same in both
		for _, session := range sessions {
			go deliver(session, "n1", &schemas.Navigate{TargetID: third})
		}
		synctest.Wait()
		if n := len(got); n != 1 {
			t.Errorf("%d moves are stored at once", n)
		}
		close(free)
		synctest.Wait()
		if n := len(got); n != 2 {
			t.Errorf("%d moves were stored, want 2", n)
		}
	})
}
